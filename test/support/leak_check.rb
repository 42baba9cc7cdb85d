# frozen_string_literal: true

# Says what a test left behind: descriptors, threads, child processes. Taken before each test and
# compared after it by LifecycleChecks. What is on its way out gets a moment; the garbage
# collector's help does not count.
module GyreTest
  # A snapshot of what the process holds.
  class LeakCheck
    # A child process or a thread that ends needs its turn on a busy machine.
    MOMENT_S = 30.0
    # Looks in that time, at least: the machine may have stood still.
    LOOKS = 50
    # Kept on purpose for the process's life: the threads of Timeout and of Gyre::Offload, the
    # watchdog.
    KEPT_THREADS = /timeout|offload|watchdog/i
    SUPPORTED = File.directory?("/proc/self/fd")

    # Makes everything that Ruby itself opens once and keeps (its timer thread, resolver, random
    # source), so that the first test which needs it is not blamed.
    def self.warm_up
      Thread.new { sleep 0.001 }.join
      Process.wait(Process.spawn("true"))
      require "socket"
      require "securerandom"
      SecureRandom.hex(4)
      TCPServer.new("localhost", 0).close
    rescue SocketError
      warn "tests: this machine has no address for localhost (an /etc/hosts is missing): tests which need one fail"
    end

    def initialize
      @descriptors = descriptors
      @threads = Thread.list
      @children = children
    end

    # Waits a moment for what is just ending.
    def leaks
      deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + MOMENT_S
      1.step do |looks|
        found = current_leaks
        return found if found.empty? || (looks > LOOKS && Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline)

        sleep 0.01
      end
    end

    private

    def current_leaks
      (descriptors - @descriptors).map { |fd| "descriptor #{fd} is still open: #{target(fd)}" } +
        leaked_threads.map { |thread| "#{thread.inspect} still runs: #{thread.backtrace&.first(3)&.join(", ")}" } +
        (children - @children).map { |pid| "child process #{pid} is not reaped: #{command(pid)}" }
    end

    def leaked_threads
      (Thread.list - @threads).reject { |thread| thread.name.to_s.match?(KEPT_THREADS) || timeout_thread?(thread) }
    end

    # The timeout library's thread has a name only since Ruby 3.2.
    def timeout_thread?(thread)
      thread.inspect.match?(%r{/timeout\.rb:})
    end

    def descriptors
      return [] unless SUPPORTED

      Dir.children("/proc/self/fd").select { |fd| target(fd)&.match?(%r{/proc/\d+/fd\z}) == false }
    end

    def target(descriptor)
      File.readlink("/proc/self/fd/#{descriptor}")
    rescue SystemCallError
      nil # closed since it was listed
    end

    def children
      Dir["/proc/self/task/*/children"].flat_map { |path| File.read(path).split }
    rescue SystemCallError
      [] # a thread ended while it was read; the next look sees them
    end

    def command(pid)
      File.read("/proc/#{pid}/cmdline").tr("\0", " ").strip
    rescue SystemCallError
      "gone"
    end
  end
end
