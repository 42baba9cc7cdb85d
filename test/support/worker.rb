# frozen_string_literal: true

# One test file in a forked process of its own session: what it breaks, leaves behind or waits for
# ever for concerns no other file. Started and asked by Runner.
require "tmpdir"
require_relative "summary"
require_relative "watchdog"

module GyreTest
  # From the parent's side, but for #work.
  class Worker
    # For how long a worker outlives the time limit of its test before the parent ends it: the
    # worker's own watchdog, which reports more, comes first.
    GRACE_S = [20, Watchdog::LIMIT_S].min
    # How long a file may take to its first test.
    LOAD_S = 60
    # How much is shown of what a worker that crashed has printed: a crash of Ruby's prints
    # thousands of lines, the best first.
    LINES = 100

    attr_reader :path, :pid, :started_s

    def initialize(path, folder, options)
      @path = path
      @base = File.join(folder, path.tr("/", "-"))
      @options = options
      @started_s = now
      @pid = fork { work }
    end

    # Returns whether it has ended, however that came.
    def ended?
      end_it if @killed.nil? && late?
      @status ? true : reap
    end

    # What processors worked for it and for what it has started and waited for.
    def worked_s
      @worked_s || 0.0
    end

    def seconds
      @seconds || (now - @started_s)
    end

    # After its end. One that left no summary has crashed.
    def summary
      @summary ||= read_summary
    end

    def printed
      File.binread(log).force_encoding(Encoding::UTF_8).scrub
    end

    # Ends the processes that it has left running.
    def clean_up
      session.map do |pid|
        command = File.read("/proc/#{pid}/cmdline").tr("\0", " ").strip
        Process.kill(:KILL, pid)
        "#{@path} left process #{pid} running: #{command}"
      rescue SystemCallError
        nil # it has just ended
      end.compact
    end

    # Ends it and what it has started.
    def end_it
      @killed = true
      [@pid, *session].uniq.each do |pid|
        Process.kill(:KILL, pid)
      rescue SystemCallError
        next
      end
    end

    private

    # Returns whether it has ended.
    def reap
      before_s = worked_by_children_s
      @status = Process.wait2(@pid, Process::WNOHANG)&.last or return false
      @seconds = now - @started_s
      @worked_s = worked_by_children_s - before_s
      true
    end

    def worked_by_children_s
      Process.times.then { |times| times.cutime + times.cstime }
    end

    # In the worker.
    def work
      Process.setsid
      $stdin.reopen(File::NULL)
      $stdout.reopen(log, "ab")
      $stderr.reopen($stdout)
      [$stdout, $stderr].each { |io| io.sync = true }
      Report.destination = result
      Watchdog.note = note
      ARGV.replace(@options)
      $PROGRAM_NAME = @path
      require "test_helper"
      require File.expand_path(@path)
    end

    def log
      "#{@base}.log"
    end

    def result
      "#{@base}.result"
    end

    # Tells which test runs, and by when it has to be done.
    def note
      "#{@base}.now"
    end

    def late?
      deadline_s, = running
      now > (deadline_s || (@started_s + [LOAD_S, Watchdog::LIMIT_S].max)) + GRACE_S
    end

    def running
      deadline_s, name = File.read(note).split(" ", 2)
      [Float(deadline_s), name]
    rescue Errno::ENOENT
      nil # before the first test
    end

    def read_summary
      found = File.exist?(result) ? Marshal.load(File.binread(result)) : Summary.new
      return found if File.exist?(result) && (@status.success? || found.failed.positive?)

      found.fail("#{@path} #{ending} #{running ? "in or after #{running.last}" : "before its first test"}\n" \
                 "#{last_words.join}")
      found
    end

    def last_words
      lines = printed.lines
      crash = lines.index { |line| line.include?("[BUG]") }
      crash ? lines[crash, LINES] : lines.last(LINES)
    end

    def ending
      return "was ended, for it did not end in time," if @killed

      @status.signaled? ? "was killed by SIG#{Signal.signame(@status.termsig)}" : "ended with status #{@status.exitstatus}"
    end

    # The processes of its session, itself left out. Linux only.
    def session
      Dir["/proc/[0-9]*/stat"].map do |path|
        fields = File.read(path)[/\) (.*)/m, 1].to_s.split
        Integer(path[/\d+/]) if fields[3] == @pid.to_s && fields[0] != "Z"
      rescue SystemCallError
        nil # it ended since the list was made
      end.compact - [@pid]
    end

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
