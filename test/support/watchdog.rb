# frozen_string_literal: true

# Ends a run in which one test hangs: prints what every thread does, kills the test's child
# processes, leaves with status 3. Started by Report. A hang inside C code that holds the GVL is for
# the caller's own time limit.
module GyreTest
  # One thread that looks once a second at how long the present test has run.
  class Watchdog
    LIMIT_S = Float(ENV.fetch("GYRE_TEST_LIMIT_S", "120"))
    FIBERS_LIMIT = 50

    class << self
      # The test now running and the time by which it must be done.
      attr_accessor :current
      # Returns the file in which a worker's parent reads the same.
      attr_accessor :note

      # Called before a test. A test class that needs longer has `def self.time_limit_s =
      # 240`.
      def watch(test)
        factor = test.class.respond_to?(:time_limit_s) ? test.class.time_limit_s / 120.0 : 1.0
        self.current = ["#{test.class}##{test.name}", now + (LIMIT_S * factor)]
        write_note if note
      end

      def release
        self.current = nil
      end

      def start(&on_hang)
        parent = Process.ppid
        Thread.new { loop { sleep 1 and look(on_hang, parent) } }.name = "test watchdog"
      end

      private

      # Whole or not at all: read at a moment when it is empty, a file that has run for long would
      # seem never to have begun a test.
      def write_note
        File.write("#{note}.new", current.reverse.join(" "))
        File.rename("#{note}.new", note)
      end

      def look(on_hang, parent)
        exit!(4) if note && Process.ppid != parent # the run that started this worker was killed
        name, deadline = current
        return if name.nil? || now < deadline

        $stderr.puts "\n#{name} hangs. What the threads and fibers do:", threads, fibers
        on_hang.call(name)
        $stdout.flush
        kill_children
        exit!(3)
      end

      def threads
        Thread.list.map { |thread| described(thread) }
      end

      def fibers
        ObjectSpace.each_object(Fiber).select(&:alive?).first(FIBERS_LIMIT).map { |fiber| described(fiber) }
      end

      # The lines of Minitest itself are left out.
      def described(thread)
        lines = thread.backtrace.to_a.grep_v(%r{/minitest[-/]})
        "#{thread.inspect}\n#{lines.map { |line| "    #{line}\n" }.join}"
      end

      def kill_children
        Dir["/proc/self/task/*/children"].flat_map { |path| File.read(path).split }.each do |pid|
          Process.kill(:KILL, Integer(pid))
        rescue SystemCallError
          next # ended by itself
        end
      end

      def now
        Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end
    end
  end
end
