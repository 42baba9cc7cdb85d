# frozen_string_literal: true

# A connection to a Redis server, named by a URL: logs in, asks, reads replies. Used by
# Output::Redis; it comes back as every ReconnectingSocket does. It has no part in streams.
#
#   redis://[user[:password]@]host[:port][/database]        redis+unix://[user[:password]@]/path[?db=database]

require "gyre/log/output/reconnecting_socket"
require "gyre/log/output/remote"
require "gyre/log/output/resp"

module Gyre
  module Log
    module Output
      # One connection at a time.
      class RedisConnection
        # Redis answered something else than what was needed; tried again like a broken connection.
        class Refused < StandardError; end

        REPLY_TIMEOUT_S = 30

        # @return [String] the URL without user and password
        def self.shown(url) = url.sub(%r{://.*@}, "://")

        # @param url [String]
        # @param retries [Retry]
        # @raise [ArgumentError] which shows no password
        def initialize(url, retries, connect_timeout_s: ReconnectingSocket::CONNECT_TIMEOUT_S, reply_timeout_s: REPLY_TIMEOUT_S)
          @database = Remote.database(url)
          @reply_timeout_s = reply_timeout_s
          @socket = ReconnectingSocket.new(retries, @database.endpoint, connect_timeout_s: connect_timeout_s, &method(:greet))
        end

        # Sends commands and reads a reply to each, on a new connection again if this one breaks.
        # @param doing [String] for messages
        # @param requests [Array<Array>] commands
        # @return [Array] replies; a Failure among them makes a new try
        def ask(doing, *requests) = use(doing) { |session| session.call(*requests) }

        # The same once only.
        # @raise [Unavailable]
        def try(doing, *requests) = @socket.try(doing, Refused, Resp::Malformed) { call(*requests) }

        # Runs the block with what can `call`, `write` and `read`; again when the connection breaks
        # or Refused is raised.
        def use(doing) = @socket.use(doing, Refused, Resp::Malformed) { yield self }

        # Within {#use}.
        # @return [Array] a reply to each
        # @raise [Refused]
        def call(*requests)
          write(requests.map { |words| Resp.command(*words) }.join)
          requests.map { checked(read) }
        end

        # Within {#use}.
        def write(bytes) = @socket.write(bytes)

        # Within {#use}.
        # @return the next reply
        # @raise [Refused] when it does not come in time
        def read
          @socket.transport
          @replies.read
        end

        def close = @socket.close

        private

        # The first on each connection.
        def greet(transport)
          transport.read_timeout_s = @reply_timeout_s
          @replies = Resp::Reader.new { more(transport) }
          greetings = []
          greetings << ["AUTH", *@database.login] if @database.login.any?
          greetings << ["SELECT", @database.number] unless ["", "0"].include?(@database.number)
          greetings.each do |words|
            transport.write(Resp.command(*words))
            checked(@replies.read)
          end
        end

        def checked(reply) = reply.is_a?(Resp::Failure) ? raise(Refused, reply.message) : reply

        def more(transport)
          transport.read_partial(65_536) or raise EOFError, "the connection was closed"
        rescue TimeoutError => error
          raise if error.deadline

          raise Refused, "no answer within #{@reply_timeout_s} s"
        end
      end
    end
  end
end
