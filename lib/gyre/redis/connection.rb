# frozen_string_literal: true

# Logs in to the Redis server of a URL and reads its replies. Used by outputs of the log
# and by Gyre::Broadcast.
#
#   redis://[user[:password]@]host[:port][/database]        redis+unix://[user[:password]@]/path[?db=database]
#   rediss://…[/database][?ca=…&cert=…&key=…&verify=false]  over TLS, which verifies certificate and name

require "gyre/net/reconnecting_socket"
require "gyre/redis/address"
require "gyre/redis/wire"

module Gyre
  module Redis
    class Connection < ReconnectingSocket
      # Redis replied with an error, or too late. Handled like a lost connection.
      class Refused < StandardError; end

      REPLY_TIMEOUT_S = 30

      def self.shown(url) = url.sub(%r{://.*@}, "://")

      def initialize(url, retries)
        @address = Address.parse(url)
        super(retries, @address.endpoint)
      end

      # Sends requests and returns their replies. Retries after a lost connection or a Failure.
      def ask(doing, *requests) = use(doing) { |session| session.call(*requests) }

      # Yields itself for `call`, `write` and `read`. Retries after a lost connection or Refused.
      def use(doing) = super(doing, Refused, Wire::Malformed) { yield self }

      # Within {#use}.
      def call(*requests)
        write(requests.map { |words| Wire.command(*words) }.join)
        requests.map { checked(read) }
      end

      # Within {#use}.
      def read
        transport
        @replies.read
      end

      private

      def greet(transport)
        transport.read_timeout_s = REPLY_TIMEOUT_S
        @replies = Wire::Reader.new { more(transport) }
        call(["AUTH", *@address.login]) if @address.login.any?
        call(["SELECT", @address.number]) unless ["", "0"].include?(@address.number)
      end

      def checked(reply) = reply.is_a?(Wire::Failure) ? raise(Refused, reply.message) : reply

      def more(transport)
        transport.read_partial(65_536) or raise EOFError, "the connection was closed"
      rescue TimeoutError => error
        raise if error.deadline

        raise Refused, "no answer within #{REPLY_TIMEOUT_S} s"
      end
    end
  end
end
