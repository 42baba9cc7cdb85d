# frozen_string_literal: true

# A server, under test or of the clients under test: started on its own core and a free port,
# watched, and stopped with all its children. What is started for each name stands in servers.rb.
# Nothing outlives Server.stop_all.

require "fileutils"
require "socket"
require_relative "process_tree"
require_relative "setup"

module Bench
  # One running server.
  class Server
    READY_WITHIN_S = 30
    STOP_WITHIN_S = 8

    @running = []

    class << self
      attr_reader :running

      # Stops whatever is still running; called at exit and on signals.
      def stop_all
        @running.dup.each(&:stop)
      end

      # Returns a port that is free now.
      def free_port
        TCPServer.open("127.0.0.1", 0) { |server| server.addr[1] }
      end
    end

    attr_reader :name, :port, :tree

    def initialize(name, environment = {}, scheme: "http", core: SERVER_CORE, &command)
      @name = name
      @environment = environment
      @scheme = scheme
      @core = core
      @command = command
    end

    # Starts the process and waits until it accepts connections; on another port if a program was
    # faster with that one.
    def start(attempts = 3)
      @port = Server.free_port
      FileUtils.mkdir_p(WORK)
      @log = File.join(WORK, "#{@name}.log")
      command = @command.call(@port)
      @pid = spawn(@environment, "taskset", "-c", @core.to_s, *command,
                   in: File::NULL, out: @log, err: %i[child out], pgroup: true)
      @tree = ProcessTree.new(@pid)
      Server.running << self
      wait_until_ready
      self
    rescue Problem => e
      raise unless e.message.include?("in use") && (attempts -= 1).positive?

      retry
    end

    # Asks the process to end; ends it and its children after STOP_WITHIN_S seconds.
    def stop
      return unless @pid && Server.running.delete(self)

      family = @tree.pids
      signal(:TERM, [@pid])
      deadline = now + STOP_WITHIN_S
      sleep 0.05 until ended? || now > deadline
      signal(:KILL, family)
      Process.wait(@pid) unless @ended
      @pid = nil
    end

    # Returns whether the process is still there.
    def alive?
      @pid && !ended?
    end

    def printed = File.read(@log)

    # Returns where a load generator finds it.
    def url(path)
      "#{@scheme}://127.0.0.1:#{@port}#{path}"
    end

    private

    def wait_until_ready
      deadline = now + READY_WITHIN_S
      until listening?
        if ended? || now > deadline
          stop
          raise Problem, "#{@name} #{@ended ? 'ended' : 'does not listen'}: #{printed[/.*Error.*/]}\n#{printed.lines.last(15).join}"
        end
        sleep 0.05
      end
    end

    def listening?
      TCPSocket.open("127.0.0.1", @port).close
      true
    rescue Errno::ECONNREFUSED
      false
    end

    def ended?
      @ended ||= !Process.wait(@pid, Process::WNOHANG).nil?
    end

    def signal(name, pids)
      pids.each do |pid|
        Process.kill(name, pid)
      rescue Errno::ESRCH
        nil # it has ended by itself
      end
    end

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
