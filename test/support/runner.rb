# frozen_string_literal: true

# Runs test files beside each other, one worker a core, long files first. This process only forks
# and waits: it has one thread, for a child forked beside others may hang (see fork_guard.rb), and
# loads no part of Gyre.
require "etc"
require "fileutils"
require "rbconfig"
require "tmpdir"
require_relative "summary"
require_relative "worker"

module GyreTest
  # One run over a list of files.
  class Runner
    ROOT = File.expand_path("../..", __dir__)
    PAUSE_S = 0.02

    def initialize(files, options, jobs:)
      @options = options
      @verbose = options.include?("-v") || options.include?("--verbose")
      @jobs = jobs
      @seconds = read_seconds
      @queue = files.uniq.sort_by { |path| [-(@seconds[path] || guess(path)), path] }
      @total = Summary.new
      @workers = []
      @notes = []
    end

    def run
      Dir.mktmpdir("gyre-tests-") do |folder|
        until @queue.empty? && @workers.empty?
          @workers << Worker.new(@queue.shift, folder, @options) while @workers.size < @jobs && @queue.any?
          sleep PAUSE_S if @workers.none?(&:ended?)
          ended, @workers = @workers.partition(&:ended?)
          ended.each { |worker| finish(worker) }
        end
      ensure
        @workers.each { |worker| worker.end_it.then { Process.wait(worker.pid) } }
      end
      write_seconds
      @total
    end

    def print(out, took_s)
      @total.print_failures(out)
      @total.print_slowest(out)
      @total.print_skips(out)
      @total.print_warnings(out)
      out.puts "", @notes.uniq unless @notes.empty?
      out.puts format("\n%.1f s with %d at a time, of which processors worked %.1f s", took_s, @jobs, Process.times.then { |t| t.cutime + t.cstime })
    end

    private

    def finish(worker)
      left = worker.clean_up
      summary = worker.summary
      @seconds[worker.path] = worker.seconds.round(1)
      @total.add(summary)
      @notes.concat(left, worker.printed.lines(chomp: true).grep(/\Atests: /))
      outcome = summary.failed.zero? ? "" : "  #{summary.failed} FAILED"
      puts format("%7.1f s (worked %5.1f s) %4d tests  %s%s", worker.seconds, worker.worked_s, summary.tests, worker.path, outcome)
      summary.print_failures($stdout)
      puts worker.printed if @verbose || summary.failed.positive?
    end

    # What the last run took; a file that was not run yet is guessed by its length.
    def guess(path)
      File.size(path) / 4000.0
    end

    def read_seconds
      File.readlines(record, chomp: true).to_h { |line| line.split(" ", 2).reverse }.transform_values(&:to_f)
    rescue Errno::ENOENT
      {}
    end

    # Not after a run of some tests only, which shows little about the file.
    def write_seconds
      return unless (@options - ["--seed", "-v", "--verbose"]).grep_v(/\A\d+\z/).empty?

      FileUtils.mkdir_p(File.dirname(record))
      File.write("#{record}.#{Process.pid}", @seconds.map { |path, seconds| "#{seconds} #{path}\n" }.join)
      File.rename("#{record}.#{Process.pid}", record)
    end

    def record
      File.join(ROOT, "tmp", "test-seconds-#{RUBY_ENGINE}-#{RbConfig::CONFIG["ruby_version"]}")
    end
  end
end
