# frozen_string_literal: true

# Carries broadcasts between machines by Redis' PUBLISH and SUBSCRIBE. Runs in a thread of each
# process that publishes or subscribes, such as a job queue. Uses two connections, because a
# subscribed connection takes no other command (RESP 2).

require "gyre/core"
require "gyre/broadcast/outbox"
require "gyre/broadcast/relay"
require "gyre/log/output/redis_connection"

module Gyre
  module Broadcast
    # Reconnects after a failure. Meanwhile messages of this process wait, and messages of other
    # processes are lost. A message may be sent twice; Relay drops the second.
    class Redis
      PING_S = 10
      RECONNECT_S = 0.1
      EXIT_S = 2
      Connection = Gyre::Log::Output::RedisConnection
      ERRORS = [*Gyre::Log::Output::ReconnectingSocket::ERRORS, Connection::Refused, Gyre::Log::Output::Resp::Malformed].freeze
      private_constant :PING_S, :RECONNECT_S, :EXIT_S, :Connection, :ERRORS

      # The block gets a text when trouble begins and when it ends.
      def initialize(url, channel, &report)
        @url = url
        @channel = channel
        @report = report
        @name = "broadcasts over #{Connection.shown(url)}"
        @lock = Thread::Mutex.new
        connection("") # raises for a wrong address
        at_exit { finish if @pid == Process.pid }
      end

      def offer(text) = @outbox.offer(text)

      # Starts the thread, once in each process.
      def start
        return if @pid == Process.pid

        @lock.synchronize do
          next if @pid == Process.pid

          @sending = []
          @outbox = Outbox.new { |text| @report.call("#{@name}: Redis #{text}") }
          @thread = Thread.new { Gyre.run(@name) { |task| run(task) } }
          @pid = Process.pid
        end
      end

      private

      def run(task)
        @incoming = connection("those of others are lost")
        task.async("receive", transient: true) { receive }
        task.every(PING_S, "ping") { ping }
        publish
      end

      def connection(meanwhile)
        Connection.new(@url, Gyre::Log::Output::Retry.new(@name, report: @report, meanwhile: meanwhile))
      end

      def publish
        outgoing = connection("up to #{Outbox::BYTES_LIMIT >> 20} MB wait")
        finished = false
        until finished
          @sending = @outbox.take
          finished = @sending.delete("")
          outgoing.ask("publish", *@sending.map { |text| ["PUBLISH", @channel, text] })
          @sending = []
        end
      end

      def receive
        loop do
          @incoming.ask("subscribe", ["SUBSCRIBE", @channel])
          @subscribed = true
          Broadcast.hears
          take(*@incoming.read) while true
        rescue *ERRORS
          @subscribed = false
          @incoming.close
          sleep(RECONNECT_S)
        end
      end

      def take(kind, _channel = nil, text = nil)
        Relay.receive(JSON.parse(text)) if kind == "message"
      rescue StandardError => error
        @report.call("#{@name}: a message: #{error.message}")
      end

      # Sends a PING; if Redis does not answer, the connection counts as lost.
      def ping
        @incoming.write(Gyre::Log::Output::Resp.command("PING")) if @subscribed
      rescue *ERRORS
        nil # the receiving task gets an error, too
      end

      # Sends the waiting messages at the end of the process, and reports those that are lost.
      def finish
        @outbox.push("")
        return if @thread.join(EXIT_S)

        lost = @sending.size + @outbox.size
        @report.call("#{@name}: #{lost} messages were lost at the process's end") if lost.positive?
      end
    end
  end
end
