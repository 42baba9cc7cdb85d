# frozen_string_literal: true

# Dalli's own tests of its client against Gyre's under Dalli's name, with a memcached that they
# start themselves on fixed ports. Some of these are among those that the kernel gives to other
# programs' connections, so where that may be, the tests have a network namespace of their own. The
# gem has no tests: test/conformance/dalli/source.rb gets them. Each file runs in a process of its
# own; TEST=file chooses some.
require "rbconfig"
require_relative "../test/conformance/dalli/exceptions"
require_relative "../test/conformance/dalli/source"
require_relative "../test/conformance/verdict"

# How the files are run, and what is printed about it.
module GyreDalliConformance
  FILE_LIMIT_S = 180
  # Its connections get other ports than those that the tests listen on.
  NAMESPACE = ["unshare", *("--map-root-user" unless Process.uid.zero?), "--net", "sh", "-c",
               'ip link set lo up && echo "50000 59000" >/proc/sys/net/ipv4/ip_local_port_range && exec "$@"', "sh"].freeze

  module_function

  def run(source, folder)
    verdict = GyreConformance::Verdict.new(GyreConformance::DALLI_EXCEPTIONS)
    files = Dir[*GyreConformance::DALLI_FILES.map { |pattern| File.join(source, pattern) }].sort
    files.select! { |file| ENV["TEST"].split(/[,\s]+/).include?(File.basename(file)) } if ENV["TEST"]
    abort "no such file: #{ENV["TEST"]}" if files.empty?
    files.each { |file| run_file(file, source, folder, verdict) }
    verdict.finish unless ENV["TEST"]
    verdict
  end

  # The output is shown only when something failed.
  def run_file(file, source, folder, verdict)
    base = File.join(folder, "dalli-#{RUBY_VERSION}-#{File.basename(file, ".rb")}")
    results, log = "#{base}.results", "#{base}.log"
    File.write(results, "")
    system(environment, *namespace, "timeout", "--kill-after=5", FILE_LIMIT_S.to_s, RbConfig.ruby, "-I#{GyreBuild.root}/lib", "-rbundler/setup",
      File.join(GyreBuild.root, "test/conformance/dalli/runner.rb"), source, results, file, in: File::NULL, out: log, err: %i[child out])
    failed_before = verdict.failed
    verdict.add(File.basename(file), File.readlines(results, chomp: true), "exit status #{$?.exitstatus.inspect}")
    puts "#{File.basename(file)}: see #{log.delete_prefix("#{GyreBuild.root}/")}" if verdict.failed > failed_before
  end

  # Returns what a command is put behind.
  def namespace
    @namespace ||= system(*NAMESPACE, "true", out: File::NULL, err: File::NULL) ? NAMESPACE : []
  end

  def environment
    gemfile = File.join(GyreBuild.root, "vendor/bundle/dalli-#{RUBY_ENGINE}-#{RbConfig::CONFIG["ruby_version"]}/Gemfile")
    GyreSuite.unbundled.merge("BUNDLE_GEMFILE" => gemfile)
  end

  # Why it cannot run here.
  def obstacle(source)
    return "the tests need Ruby 3.3 or newer" if RUBY_VERSION < "3.3"
    return "memcached is not installed" unless system("command -v memcached >/dev/null")
    return "the gems of test/dalli/gems.rb could not be installed" unless GyreSuite.bundle("dalli")

    source.problem unless source.path
  end
end

namespace :conformance do
  desc "Run Dalli's own tests against Gyre's client under Dalli's name (TEST=files, GYRE_DALLI_SOURCE=a copy of its repository)"
  task dalli: :compile do
    folder = File.join(GyreBuild.root, "tmp", "conformance")
    mkdir_p folder, verbose: false
    source = GyreConformance::DalliSource.new(folder)
    if (obstacle = GyreDalliConformance.obstacle(source))
      puts "Dalli's tests: SKIPPED, #{obstacle}"
      counts = [0, 0, 1]
    else
      verdict = GyreDalliConformance.run(source.path, folder)
      puts verdict.notes.map { |note| "  #{note}" }
      counts = [verdict.passed, verdict.failed, verdict.skipped]
      puts format("Dalli's tests of %<tag>s: %<passed>d passed, %<failed>d failed, %<skipped>d skipped",
        tag: GyreConformance::DalliSource::TAG, passed: counts[0], failed: counts[1], skipped: counts[2])
    end
    GyreSuite.write_counts(counts)
    abort unless counts[1].zero?
  end
end
