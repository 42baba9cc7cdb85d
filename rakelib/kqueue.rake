# frozen_string_literal: true

# The kqueue backend on Linux, over libkqueue, in a copy of the checkout that is built with it: the
# contracts of the backend, the loop and the scheduler, and CRuby's tests of fibers. No other build
# and no other test knows libkqueue.

# How the copy is made and what runs there.
module GyreKqueue
  FILES = %w[test/loop/backend_contract_test.rb test/loop/libkqueue_faults_test.rb test/loop_test.rb test/scheduler_test.rb].freeze
  ON_KQUEUE = %w[-n /[Kk]queue/].freeze
  BUILT_WITH = { "GYRE_KQUEUE" => "1" }.freeze

  module_function

  def libkqueue?
    system("bin/setup", "--with", "libkqueue")
    system("pkg-config", "--exists", "libkqueue", err: File::NULL) || GyreSuite.skip("libkqueue is not installed")
  end

  def run
    folder = File.join(GyreBuild.root, "tmp", "kqueue", GyreBuild.ruby_key)
    GyreCheck.copy_checkout(folder)
    build(folder)
    mended = { "LD_PRELOAD" => mend(folder) }
    counts = counted { GyreSuite.run(*FILES, *ON_KQUEUE, environment: mended, root: folder) }
    fibers = { "BACKEND" => "kqueue", **BUILT_WITH, **mended }
    counts = counts.zip(counted { system(fibers, "bin/bundle", "exec", "rake", "conformance:ruby", chdir: folder) }).map(&:sum)
    GyreSuite.write_counts(counts)
    abort unless counts[1].zero?
  end

  # Takes the objects of the checkout's own build, for only the backends differ.
  def build(folder)
    objects, work = [GyreBuild.root, folder].map { |root| File.join(root, "tmp", RUBY_PLATFORM, GyreBuild.ruby_key) }
    FileUtils.mkdir_p(work)
    GyreBuild.configure(folder, work, BUILT_WITH)
    Dir[File.join(objects, "*.o")].grep_v(/-backend/).each { |object| GyreCheck.copy_file(object, File.join(work, File.basename(object))) }
    GyreBuild.compile(root: folder, environment: BUILT_WITH)
  end

  # See test/c/libkqueue.c.
  def mend(folder)
    File.join(folder, "libkqueue_mended.so").tap do |library|
      system("cc", "-shared", "-fPIC", "-O2", "test/c/libkqueue.c", "-o", library, "-ldl") || abort
    end
  end

  # Runs something that writes its counts; returns them. Ending badly counts as a failure.
  def counted
    path = File.join(GyreBuild.root, "tmp", "kqueue", "counts")
    before, ENV["GYRE_TEST_COUNTS"] = ENV["GYRE_TEST_COUNTS"], path
    FileUtils.rm_f(path)
    passed = yield
    counts = File.exist?(path) ? File.read(path).split.map(&:to_i) : [0, 0, 0]
    counts[1] += 1 unless passed || counts[1].positive?
    counts
  ensure
    ENV["GYRE_TEST_COUNTS"] = before
  end
end

namespace :test do
  desc "Run the contracts and CRuby's tests of fibers on kqueue, over libkqueue, which ../shared/tools builds the first time"
  task(kqueue: :compile) { GyreKqueue.run if GyreKqueue.libkqueue? }
end
