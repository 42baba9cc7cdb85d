# frozen_string_literal: true

# CRuby's own tests of fibers and schedulers against Gyre::Scheduler, on each backend of this
# machine. They come from the source of the Ruby that runs (test/conformance/source.rb); only their
# scheduler.rb is ours (test/conformance/scheduler.rb). Each file runs in a process of its own;
# BACKEND=name and TEST=file choose some.
require "rbconfig"
require_relative "../test/conformance/exceptions"
require_relative "../test/conformance/source"
require_relative "../test/conformance/verdict"

# How the files are run, and what is printed about it.
module GyreConformance
  FILE_LIMIT_S = 300 # some 20 s on an idle machine; what hangs is named
  TIMEOUT_SCALE = "12" # of the 10 s that the tests give to programs

  module_function

  def run(source)
    require File.join(GyreBuild.root, "lib", "gyre", "loop")
    backends = ENV["BACKEND"].to_s.empty? ? Gyre::Loop.availables : ENV["BACKEND"].split(/[,\s]+/)
    backends.map { |backend| run_on(backend, source) }.transpose.map(&:sum)
  end

  def run_on(backend, source)
    start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    verdict = Verdict.new(exceptions)
    files = Dir[File.join(source, "test/fiber/#{ENV["TEST"] || "test_*.rb"}")].sort
    abort "no such file: #{ENV["TEST"]}" if files.empty?
    files.each { |file| run_file(file, backend, source, verdict) }
    verdict.finish unless ENV["TEST"]
    report(backend, verdict, Process.clock_gettime(Process::CLOCK_MONOTONIC) - start)
    [verdict.passed, verdict.failed, verdict.skipped]
  end

  # The output is shown only when something failed, for it is long.
  def run_file(file, backend, source, verdict)
    base = File.join(GyreBuild.root, "tmp", "conformance", "#{RUBY_VERSION}-#{backend}-#{File.basename(file, ".rb")}")
    results, log = "#{base}.results", "#{base}.log"
    File.write(results, "")
    command = ["timeout", "--kill-after=5", FILE_LIMIT_S.to_s, RbConfig.ruby, "-W:no-experimental",
               File.join(GyreBuild.root, "test/conformance/runner.rb"), source, results, file]
    environment = { "GYRE_BACKEND" => backend, "RUBYOPT" => nil, "RUBY_TEST_TIMEOUT_SCALE" => TIMEOUT_SCALE }
    system(environment, *command, in: File::NULL, out: log, err: %i[child out])
    failed_before = verdict.failed
    verdict.add(File.basename(file), File.readlines(results, chomp: true), ending($?))
    puts File.read(log) if verdict.failed > failed_before
  end

  def ending(status)
    return "ended after #{FILE_LIMIT_S} s" if [124, 137].include?(status.exitstatus)

    status.signaled? ? "killed by SIG#{Signal.signame(status.termsig)}" : "exit status #{status.exitstatus}"
  end

  def exceptions
    EXCEPTIONS.select { |_, exception| RUBY_VERSION.start_with?(exception[:ruby]) }.transform_values { |exception| exception[:reason] }
  end

  def report(backend, verdict, took_s)
    puts verdict.notes.map { |note| "  #{note}" }
    puts format("CRuby's test/fiber of %<ruby>s on %<backend>s: %<passed>d passed, %<failed>d failed, %<skipped>d skipped in %<took>.1f s",
      ruby: RUBY_VERSION, backend: backend, passed: verdict.passed, failed: verdict.failed, skipped: verdict.skipped, took: took_s)
  end
end

namespace :conformance do
  desc "Talk to WebSockets by Debian's python3-websockets; installs it the first time"
  task websockets: :compile do
    sh "bin/setup", "--with", "python3-websockets", verbose: false
    GyreSuite.run(*GyreTest::PARTS["websockets"]) || abort
  end

  desc "Run CRuby's own test/fiber of this Ruby against Gyre::Scheduler on each backend (BACKEND, TEST=file)"
  task ruby: :compile do
    folder = File.join(GyreBuild.root, "tmp", "conformance")
    mkdir_p folder, verbose: false
    source = GyreConformance::Source.new(folder)
    if source.path
      File.write(File.join(source.path, "test/fiber/scheduler.rb"),
        "require #{File.join(GyreBuild.root, "test/conformance/scheduler").dump}\n")
      counts = GyreConformance.run(source.path)
    else
      puts "CRuby's test/fiber of #{RUBY_VERSION}: SKIPPED, its source cannot be had: #{source.problem}"
      counts = [0, 0, 1]
    end
    GyreSuite.write_counts(counts)
    abort unless counts[1].zero?
  end
end
