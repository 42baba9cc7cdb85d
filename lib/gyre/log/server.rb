# frozen_string_literal: true

# The log server: settings in, a process that collects messages out. `gyre log` and tests make one.
# It puts the parts together (ingest, outputs, committer, hub), handles signals, and ends in order;
# the clients' side is Gyre::Log::Connection's.
#
#   new ── listen ──► LISTENING ── run ──► SERVING ── stop, INT, TERM ──► STOPPING ── all is durable ──► ended
#                                          │    ▲                            └── once more, or too late ─►┘
#                                          └────┴─ restart, USR2: checks, stops reading, writes all, execs itself

require "gyre"
require "gyre/net/endpoint"
require "gyre/net/units"
require "gyre/log/server/committer"
require "gyre/log/server/datagram_receiver"
require "gyre/log/server/hub"
require "gyre/log/ingest"
require "gyre/log/server/input"
require "gyre/log/limits"
require "gyre/log/server/routing"
require "gyre/log/server/session"
require "gyre/log/server/status"

module Gyre
  module Log
    # Used once.
    #
    #   server = Gyre::Log::Server.new(bind: 6766, default_log: "log/all.log")
    #   server.run
    class Server
      # Stands for no limit: longer than any machine runs.
      UNLIMITED_S = 1e9
      private_constant :UNLIMITED_S

      # What each signal does.
      SIGNALS = { "INT" => :stop, "TERM" => :stop, "HUP" => :reopen, "USR2" => :restart }.freeze

      # @return [Ingest]
      attr_reader :ingest
      # @return [Committer]
      attr_reader :committer
      # @return [Limits]
      attr_reader :limits
      # @return [Sessions]
      attr_reader :sessions
      # @return [Routing]
      attr_reader :routing

      # @param bind [String, Integer, Gyre::Endpoint, Array] the main port, for Analogger's clients
      #   and ours
      # @param key [String, nil] that clients must send
      # @param logs [Array<Hash>] as in the configuration (docs/log.md)
      # @param default_log [String, Hash] a path, or as one of logs
      # @param levels [Array<String>, nil] severities that are written; nil: all
      # @param interval [Numeric] seconds between writes
      # @param sync_interval [Numeric, nil] seconds between syncs, for what no acknowledged client
      #   waits for
      # @param inputs [Array<Hash>] as in the configuration (docs/log.md)
      # @param tls [Hash, nil] certificate:, key:, ca:, verify: of the main port
      # @param limits [Hash, Limits] by the names in docs/log.md
      # @param raw [Boolean] messages as they came, with line ends: lines can be forged
      # @param origin [Boolean, nil] whether lines have host and process of the client; nil: not in
      #   text
      # @param signals [Boolean] whether INT, TERM, HUP and USR2 are for it
      # @param report [#puts] gets lines about the server itself
      # @param restart [#call, nil] called for USR2, in a task, with the names of the inputs that a
      #   fresh program would inherit: checks it, and returns what Process.exec takes to start it
      #   (an Array), or a String: why it must not be started
      # @param handover [#listeners, #connections, #close_others, #signalled?, #exec, nil] takes
      #   over what a server before this one has left in this process, and leaves this one's to the
      #   fresh program (Gyre::CLI::Log::Handover); nil: neither, and no restart
      # @raise [ArgumentError] names the wrong setting
      # @raise [ExtensionRequired] without the C extension
      def initialize(bind: "tcp://127.0.0.1:6766", key: nil, logs: [], default_log: "STDOUT", levels: nil, interval: 1,
                     sync_interval: 60, inputs: [], tls: nil, limits: {}, raw: false, origin: nil, signals: true, report: $stderr,
                     restart: nil, handover: nil)
        Loop.require_native("the log server")
        @limits = limits.is_a?(Limits) ? limits : Limits.new(**limits)
        @report, @restart, @handover, @signals = report, restart, handover, signals
        @inputs = Input.all(bind, inputs, tls)
        @ingest = Ingest.new(services_limit: @limits.services_limit)
        @routing = Routing.new(@ingest, logs: logs, default_log: default_log, levels: levels, raw: raw, origin: origin,
                                        report: method(:report), spill_bytes_limit: @limits.spill_bytes_limit,
                                        queue_bytes_limit: [@limits.queue_bytes_limit, @limits.memory_bytes_limit].min)
        @committer = Committer.new(@routing.pairs, interval: interval, sync_interval: sync_interval)
        @sessions = Sessions.new(@limits.sessions_limit, shared: @routing.method(:shared?), stored: @routing.method(:stored)) do |id, stored|
          @ingest.session(id, stored)
        end
        @hub = Hub.new(self, key)
        @acceptors = []
        @reopen_tasks = []
      end

      # Opens the sockets. From here on clients can connect; they are served when the server runs.
      # {#run} calls it, too.
      #
      # @return [self]
      # @raise [SystemCallError, SocketError] the message names the address; none is open then
      def listen
        return self unless @acceptors.empty?

        @inputs.each do |input|
          (@handover&.listeners(input) || input.bind).each do |listener|
            @acceptors.push((listener.datagram? ? DatagramReceiver : Acceptor).new(@hub, listener, input))
          end
        end
        @handover&.close_others
        self
      rescue SystemCallError, SocketError
        close
        raise
      end

      # @return [Array<Gyre::Endpoint>] what it listens on, with the ports that the kernel chose;
      #   the main port first
      def endpoints = @acceptors.map { |acceptor| acceptor.listener.endpoint }

      # Serves until it is stopped. Inside Gyre.run other tasks go on meanwhile.
      #
      # @yield [self] once it serves
      # @return [Boolean] whether everything that came was written
      # @raise [SystemCallError, SocketError] (see #listen)
      # @raise what an output raised that cannot go on
      def run(&block)
        listen
        Task.current? ? serve(Task.current, &block) : Gyre.run("gyre log") { |task| serve(task, &block) }
      ensure
        close
      end

      # Asks it to end, from any thread or signal handler; returns at once. Asked twice, it ends
      # without waiting for the outputs.
      #
      # @return [void]
      def stop = @hub.loop.emit(:stop_serving)

      # Asks it to write all and reopen its files.
      #
      # @return [void]
      def reopen = @hub.loop.emit(:reopen)

      # Reopens the files, as {#reopen} does, and completes a connection's request with :reopened or
      # :kept.
      #
      # @param connection [#completed]
      # @return [void]
      def reopen_for(connection)
        reopen_outputs("as a client has asked") { |done| connection.completed(done ? :reopened : :kept) }
      end

      # Asks it to restart.
      #
      # @return [void]
      def restart = @hub.loop.emit(:restart)

      # @return [Hash{Symbol => Object}] see {Status}
      def status = Status.new(self, @hub, @started_s).to_h

      # @return [String] JSON
      def status_line = Status.new(self, @hub, @started_s).to_json

      # A line about the server itself.
      #
      # @param message [String]
      # @return [void]
      def report(message)
        @report.puts("gyre log: #{message}")
      rescue SystemCallError, IOError
        nil # standard error is closed
      end

      # Releases all it holds. {#run} does it at its end.
      #
      # @return [void]
      def close
        @acceptors.each { |acceptor| acceptor.listener.close }
        @hub.loop.close
        @routing.close(abandon: @complete == false)
      end

      private

      def serve(task)
        @started_s = Process.clock_gettime(Process::CLOCK_MONOTONIC)
        @task = task
        committing = task.async("committer") { commit }
        SIGNALS.each_key { |name| @hub.loop.watch_signal(name, name) } if @signals
        stop if @handover&.signalled?
        @acceptors.each(&:open)
        @handover&.connections(@hub, @inputs)
        yield self if block_given?
        @hub.run { |event| handle(event) }
        raise @failure if @failure

        @complete
      ensure
        [@restarting, @ending, committing, *@reopen_tasks].compact.each(&:stop).each(&:wait)
        @sessions.stop
        @hub.connections.keys.each(&:close)
      end

      # Without it nothing would be written any more, so the server ends with it.
      def commit
        @committer.run
      rescue StandardError => error
        @failure = error
        @hub.stop
      end

      def handle(event)
        case SIGNALS.fetch(event, event)
        when :reopen then reopen_outputs("HUP")
        when :restart then @restarting ||= @task.async("restart") { replace_process } unless @stopping
        when :stop, :stop_serving then @stopping ? @hub.stop : stop_serving
        end
      end

      # Returns at once; the result is reported when each output has done it.
      def reopen_outputs(why)
        task = @task.async("reopen", transient: true) do
          done = @committer.reopen(stop_timeout_s)
          files = Units.count(@routing.files, "file")
          report(done ? "reopened #{files} (#{why})" : "not all of #{files} could be reopened (#{why})")
          yield done if block_given?
        ensure
          @reopen_tasks.delete(task)
        end
        @reopen_tasks.push(task) unless task.finished?
        @hub.log("info", "the files are reopened (#{why})")
      end

      # --- the end ---

      def stop_timeout_s = @limits.stop_timeout_s || UNLIMITED_S

      def stop_serving
        @stopping = true
        @complete = false
        @restarting&.stop
        @acceptors.each(&:ready).each(&:pause)
        @acceptors.each { |acceptor| acceptor.listener.close }
        @ending = @task.async("stop") do
          @hub.backpressure.hold { finish }
        ensure
          @hub.stop
        end
      end

      def finish
        over_s = Clock.now + stop_timeout_s # for all that follows
        @hub.drain_sockets { @committer.flush([over_s - Clock.now, 0].max) }
        @complete = write_all([over_s - Clock.now, 0].max)
        @committer.rest([over_s - Clock.now, 0].max)
        @hub.connections.keys.each(&:leave)
      end

      # @param timeout_s [Numeric] what is left of the limit
      # @return [Boolean] whether all that came is durable
      def write_all(timeout_s = stop_timeout_s)
        done = @committer.flush(timeout_s)
        report("after #{stop_timeout_s} s #{Units.count(@hub.bytes, "byte is", "bytes are")} still not written") unless done
        @hub.send_due
        done
      end

      # --- a fresh process in place of this one ---

      def replace_process
        troubles = @committer.troubles
        return report("not restarted: not everything could be written: #{troubles.join("; ")}") if troubles.any?

        command = "the command that started this server is unknown"
        command = @restart.call(@acceptors.map { |acceptor| acceptor.input.to_s }.uniq) if @restart && @handover
        return report("not restarted: #{command}") unless command.is_a?(Array)

        @hub.backpressure.hold do
          next report("not restarted: not everything could be written") unless write_all

          @committer.rest(stop_timeout_s)
          @handover.exec(@acceptors, @hub.connections.keys, command)
        end
      rescue StandardError => error
        report("not restarted: #{error.message}")
      ensure
        @restarting = nil
        @committer.resume
      end
    end
  end
end
