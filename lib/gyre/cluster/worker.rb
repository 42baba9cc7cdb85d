# frozen_string_literal: true

# A worker is a fork of the mold. Serves with the server that a block makes, on shared
# sockets. Reports to the supervisor once a second; ends when the supervisor has gone.
#
#   pid, ready, then snapshots, broadcasts, answers ─► supervisor
#   TERM, HUP, QUIT; {stop: "now"}, {reload: true}, questions, broadcasts of others ◄─

require "gyre/broadcast/outbox"
require "gyre/broadcast/relay"
require "gyre/cluster/answers"
require "gyre/cluster/link"
require "gyre/cluster/mold"
require "gyre/profile"
require "timeout"

module Gyre
  module Cluster
    class Worker
      BEAT_S = 1
      END_S = 2
      # By the question's name. `wait` sleeps, but not beyond the end of the worker's run.
      ANSWERS = { "profile" => ->(seconds, wait) { Profile.take { wait.call(seconds) }.to_h } }.freeze

      # The block is called once and makes the server from options.
      def initialize(index, link, hooks, log, &make)
        @index = index
        @link = link
        @hooks = hooks
        @log = log
        @make = make
        @answers = Answers.new(link, ANSWERS)
      end

      def run
        tell(pid: Process.pid)
        Process.setproctitle("gyre: worker #{@index}")
        @hooks.call(:after_fork, @index)
        @server = @make.call(signals: [], before_stop: -> { hook(:before_worker_stop) })
        handle_signals
        @server.run { serving }
        hook(:after_worker_stop)
        send_rest
        0
      rescue StandardError, ScriptError => error
        tell(failed: "did not start: #{error.message}")
        @log.error("worker #{@index}: #{error.full_message(highlight: false, order: :top)}")
        1
      end

      private

      # TERM may come from a service manager and from the supervisor; a second TERM has no effect.
      # (The server handles QUIT.)
      def handle_signals
        trap("TERM") { @server.stop }
        trap("HUP") { @server.reload }
      end

      def serving
        task = Task.current
        task.async("supervisor", transient: true) { obey }
        task.async("heartbeat", transient: true) { beat }
        @outbox = Broadcast::Outbox.new { |text| @log.error("worker #{@index}: the supervisor #{text}") }
        Broadcast::Relay.attach(@outbox)
        Broadcast.hears if Broadcast.respond_to?(:hears)
        task.async("broadcasts", transient: true) { @link.carry(@outbox) { |text| line(text) } }
        task.async("after_worker_start") { hook(:after_worker_start) }
        tell(ready: true)
      end

      def line(text) = %({"broadcast":#{text}}\n)

      # Sends the last broadcasts, answers and figures at the worker's end. Reports lost broadcasts.
      def send_rest
        @outbox.push("")
        rest = [*@outbox.take.reject(&:empty?).map { |text| line(text) }, *@answers.rest, *@last_snapshot]
        Timeout.timeout(END_S) { @link.write(rest.join) }
      rescue LinkError, Timeout::Error
        lost = @link.output.scan(/^\{"broadcast"/).size
        @log.error("worker #{@index}: #{lost} messages were lost at its end") if lost.positive?
      end

      def obey
        while (message = @link.receive)
          @server.stop(now: true) if message["stop"]
          @server.reload if message["reload"]
          @answers.begin(*message["ask"]) if message["ask"]
          @answers.give_up(message["forget"]) if message["forget"]
          receive_broadcast(message["broadcast"]) if message["broadcast"]
        end
        @log.error("worker #{@index}: the supervisor has gone; this worker finishes its requests and ends")
        @server.stop
      end

      # Only logs errors: in a hot restart, a worker of another version may have sent the message.
      def receive_broadcast(message)
        Broadcast::Relay.receive(message)
      rescue StandardError => error
        @log.error("worker #{@index}: a broadcast: #{error.full_message(highlight: false, order: :top)}")
      end

      def beat
        loop do
          tell(snapshot: @server.snapshot)
          sleep(BEAT_S)
        end
      ensure
        @last_snapshot = Link.line(snapshot: @server.snapshot)
      end

      def tell(message) = write(Link.line(message))

      def write(line)
        @link.write(line)
      rescue LinkError
        nil # the supervisor has gone; the receiving task notices it
      end

      # Reports a hook's error without raising it.
      def hook(name)
        @hooks.call(name, @index)
      rescue StandardError, ScriptError => error
        @log.error("worker #{@index}: #{name}: #{error.full_message(highlight: false, order: :top)}")
      end
    end
  end
end
