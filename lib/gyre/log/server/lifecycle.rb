# frozen_string_literal: true

# Runs a log server: starts its tasks, handles signals, and ends it in order. Gyre::Log::Server
# sends stop, reopen and restart through the hub's loop.
#
#   new ── listen ──► LISTENING ── run ──► SERVING ── stop, INT, TERM ──► STOPPING ── all is durable ──► ended
#                                          │    ▲                            └── once more, or too late ─►┘
#                                          └────┴─ restart, USR2: checks, stops reading, writes all, execs itself

require "gyre/clock"
require "gyre/settings/units"
require "gyre/task"

module Gyre
  module Log
    class Lifecycle
      SIGNALS = { "INT" => :stop, "TERM" => :stop, "HUP" => :reopen, "USR2" => :restart }.freeze
      PART_S = 0.005
      # Seconds that mean no limit; longer than any uptime.
      UNLIMITED_S = 1e9

      attr_reader :started_s

      def initialize(server, hub, acceptors, handover, successor, manager)
        @server, @hub, @acceptors, @handover, @successor, @manager = server, hub, acceptors, handover, successor, manager
        @committer = server.committer
        @tasks = {} # :restart, :stop, and each reopening task
      end

      # True if the server ended before everything was written.
      def abandoned? = @complete == false

      # Serves until stopped; yields when ready. Returns true if every received message was written.
      def serve(task, signals)
        @started_s = Clock.now
        @task = task
        committing = task.async("committer") { commit }
        SIGNALS.each_key { |name| @hub.loop.watch_signal(name, name) } if signals
        @handover&.signal_again if signals
        @acceptors.each(&:resume)
        yield
        @hub.run { |event| handle(event) }
        raise @failure if @failure

        @complete
      ensure
        [*@tasks.values, committing].compact.each(&:stop).each(&:wait)
        @hub.connections.keys.each(&:close)
      end

      # Starts a reopen and returns at once. Later yields true if all outputs are reopened,
      # otherwise false.
      def reopen(why)
        key = Object.new
        spawn(key, "reopen") do
          @manager&.reloading
          done = @committer.reopen(stop_timeout_s)
          @manager&.ready
          files = Units.count(@server.routing.files, "file")
          @server.report(done ? "reopened #{files} (#{why})" : "not all of #{files} could be reopened (#{why})")
          yield done if block_given?
        end
        @hub.log("info", "the files are reopened (#{why})")
      end

      private

      # Ends the server if the committer fails, because no more lines would be written.
      def commit
        @committer.run
      rescue StandardError => error
        @failure = error
        @hub.loop.stop
      end

      def handle(event)
        case SIGNALS.fetch(event, event)
        when :reopen then reopen("HUP")
        when :restart then restart unless stopping?
        when :stop, :stop_serving then stopping? ? @hub.loop.stop : stop
        end
      end

      # Once more if asked meanwhile, because the configuration may have changed since it was read.
      def restart
        return @again = true if @tasks[:restart]

        spawn(:restart, "restart") do
          loop do
            @again = false
            replace_process
            break unless @again
          end
        end
      end

      # Runs the block in a task, which is listed under `key` meanwhile.
      def spawn(key, name)
        task = @task.async(name, transient: true) do
          yield
        ensure
          @tasks.delete(key)
        end
        @tasks[key] = task unless task.finished?
      end

      def stopping? = !@complete.nil?

      def stop_timeout_s = @server.limits.stop_timeout_s || UNLIMITED_S

      def stop
        @complete = false
        @manager&.stopping
        @tasks[:restart]&.stop
        @acceptors.each(&:ready).each(&:pause)
        @acceptors.each { |acceptor| acceptor.listener.close }
        spawn(:stop, "stop") do
          @hub.flow.hold do
            @complete = finish
            leave
          end
        rescue StandardError => error
          @failure = error
        ensure
          @hub.loop.stop
        end
      end

      # Reads and writes the messages that the sockets have. True if all messages are durable.
      def finish
        over_s = Clock.now + stop_timeout_s # limits everything that follows
        @hub.drain_sockets { @committer.flush([over_s - Clock.now, 0].max) }
        done = @committer.flush([over_s - Clock.now, 0].max)
        @server.report("after #{stop_timeout_s} s #{Units.count(@hub.flow.bytes, "byte is", "bytes are")} still not written") unless done
        @server.routing.conclude if done
        @hub.send_due
        @committer.rest([over_s - Clock.now, 0].max)
        done
      end

      def leave
        part
        @hub.connections.keys.each(&:leave)
      end

      # Waits until acknowledged clients have read their last acknowledgements: the next program may
      # write their messages elsewhere, and could not tell that these are stored.
      def part
        over_s = Clock.now + [@server.limits.linger_timeout_s, stop_timeout_s].compact.min
        waiting = @hub.connections.keys
        sleep(PART_S) until (waiting = waiting.reject(&:part)).empty? || Clock.now > over_s
      end

      # --- a fresh process in place of this one ---

      def replace_process
        troubles = @committer.troubles
        return refuse("not everything could be written: #{troubles.join("; ")}") if troubles.any?

        return refuse("the command that started this server is unknown") unless @successor

        left, ios = { listeners: @acceptors.map(&:to_h) }, @acceptors.map { |acceptor| acceptor.listener.socket }
        why = @successor.rehearse(left, ios) and return refuse(why)

        @hub.flow.hold do
          next refuse("not everything could be written") unless finish

          leave
          @successor.exec(left, ios)
        end
      rescue StandardError => error
        refuse(error.message)
      ensure
        @committer.resume
      end

      def refuse(why) = @server.report("not restarted: #{why}")
    end
  end
end
