# frozen_string_literal: true

# One run of a log server: starts its tasks and ends it in order, when all is durable. A restart
# (USR2) rehearses, stops reading, writes all, acknowledges it, and executes the next program.

require "gyre/lifetime"
require "gyre/settings/units"

module Gyre
  module Log
    class Lifecycle < Lifetime
      PART_S = 0.005
      # Seconds that mean no limit; longer than any uptime.
      UNLIMITED_S = 1e9

      def initialize(server, hub, acceptors, successor, **options)
        super("gyre log", **options)
        @server, @hub, @acceptors, @successor = server, hub, acceptors, successor
        @committer = server.committer
        @tasks = {} # :stop, and each reopening task
      end

      # True if the server ended before everything was written.
      def abandoned? = @complete == false

      # Serves until stopped; yields when ready. Returns true if every received message was written.
      def run
        super
        raise @failure if @failure

        @complete
      end

      # Starts a reopen and returns at once. Later yields true if all outputs are reopened,
      # otherwise false.
      def reopen(why)
        key = Object.new
        spawn(key, "reopen") do
          done = reloading { @committer.reopen(stop_timeout_s) }
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

      def on_start
        @task = Task.current
        @committing = @task.async("committer") { commit }
        @acceptors.each(&:resume)
        yield
        serving { @hub.run }
      end

      def on_reload = reopen("HUP")

      def on_restart = restarting { replace_process }

      # Runs the block in a task, which is listed under `key` meanwhile.
      def spawn(key, name)
        task = @task.async(name, transient: true) do
          yield
        ensure
          @tasks.delete(key)
        end
        @tasks[key] = task unless task.finished?
      end

      def stop_timeout_s = @server.limits.stop_timeout_s || UNLIMITED_S

      def on_stop(now)
        @complete = false
        return on_stop_now if now

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

      def on_stop_now = @hub.loop.stop

      def on_finish
        Lifetime.each_of(-> { [*@tasks.values, @restarting, @committing].compact.each(&:stop).each(&:wait) },
                         -> { super }, -> { @hub.connections.keys.each(&:close) })
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
