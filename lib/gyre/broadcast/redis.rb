# frozen_string_literal: true

# Carries broadcasts between machines by Redis' PUBLISH and SUBSCRIBE, in a Carrier's thread. Uses
# two connections, because a subscribed connection takes no other command (RESP 2).

require "gyre/core"
require "gyre/broadcast/carrier"
require "gyre/broadcast/relay"
require "gyre/redis/connection"

module Gyre
  module Broadcast
    # Reconnects after a failure. Meanwhile messages of this process wait, and messages of other
    # processes are lost. A message may be sent twice; Relay drops the second.
    class Redis
      PING_S = 10
      RECONNECT_S = 0.1
      Connection = Gyre::Redis::Connection
      ERRORS = [*Connection::ERRORS, Connection::Refused, Gyre::Redis::Wire::Malformed].freeze
      private_constant :PING_S, :RECONNECT_S, :Connection, :ERRORS

      attr_reader :carrier

      # The block gets a text when trouble begins and when it ends.
      def initialize(url, channel, &report)
        @url = url
        @channel = channel
        @report = report
        @name = "broadcasts over #{Connection.shown(url)}"
        connection("") # raises for a wrong address
        @carrier = Carrier.new(@name, "Redis", report) { Gyre.run(@name) { |task| run(task) } }
      end

      private

      def run(task)
        @incoming = connection("those of others are lost")
        task.async("receive", transient: true) { receive }
        task.every(PING_S, "ping") { ping }
        publish
      ensure
        @incoming.close
      end

      def connection(meanwhile) = Connection.new(@url, Retry.new(@name, report: @report, meanwhile: meanwhile))

      def publish
        outgoing = connection("up to #{Outbox::BYTES_LIMIT >> 20} MB wait")
        @carrier.each { |texts| outgoing.ask("publish", *texts.map { |text| ["PUBLISH", @channel, text] }) }
      ensure
        outgoing&.close
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
        @incoming.write(Gyre::Redis::Wire.command("PING")) if @subscribed
      rescue *ERRORS
        nil # the receiving task gets an error, too
      end
    end
  end
end
