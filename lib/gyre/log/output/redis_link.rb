# frozen_string_literal: true

# A connection to a Redis server, named by a URL: logs in, asks, reads replies. Used by Output::Redis; it comes back as every ReconnectingSocket
# does. It knows no streams.
#
#   redis://[user[:password]@]host[:port][/database]        redis+unix://[user[:password]@]/path[?db=database]

require "gyre/log/output/reconnecting_socket"
require "gyre/log/output/remote"
require "gyre/log/output/resp"

module Gyre
  module Log
    module Output
      # One connection at a time.
      class RedisLink
        # Redis answered something else than what was needed; tried again like a broken connection.
        class Refused < StandardError; end

        REPLY_TIMEOUT_S = 30

        # @return [String] the URL without user and password
        def self.shown(url)
          url.sub(%r{://.*@}, "://")
        end

        # @param url [String]
        # @param retries [Retry]
        # @raise [ArgumentError] which shows no password
        def initialize(url, retries, connect_timeout_s: ReconnectingSocket::CONNECT_TIMEOUT_S, reply_timeout_s: REPLY_TIMEOUT_S)
          @database = Remote.database(url)
          @reply_timeout_s = reply_timeout_s
          @link = ReconnectingSocket.new(retries, @database.endpoint, connect_timeout_s: connect_timeout_s) { |io| greet(io) }
        end

        # Sends commands and reads a reply to each, on a new connection again if this one breaks.
        # @param doing [String] for messages
        # @param requests [Array<Array>] commands
        # @return [Array] replies; a Failure among them makes a new try
        def ask(doing, *requests)
          use(doing) { |session| session.call(*requests) }
        end

        # The same once only.
        # @raise [Unavailable]
        def try(doing, *requests)
          @link.try(doing, Refused, Resp::Malformed) { |_io| call(*requests) }
        end

        # Runs the block with what can `call`, `write` and `read`; again when the connection breaks or Refused is raised.
        def use(doing)
          @link.use(doing, Refused, Resp::Malformed) { |_io| yield self }
        end

        # Within {#use}.
        # @return [Array] a reply to each
        # @raise [Refused]
        def call(*requests)
          write(requests.map { |words| Resp.command(*words) }.join)
          requests.map { checked(read) }
        end

        # Within {#use}.
        def write(bytes)
          @link.write(bytes)
        end

        # Within {#use}.
        # @return the next reply
        # @raise [Refused] when it does not come in time
        def read
          @link.io
          @replies.read
        end

        def close
          @link.close
        end

        private

        # The first on each connection.
        def greet(io)
          @replies = Resp::Reader.new { more(io) }
          greetings = []
          greetings << ["AUTH", *@database.login] if @database.login.any?
          greetings << ["SELECT", @database.number] unless ["", "0"].include?(@database.number)
          greetings.each do |words|
            io.write(Resp.command(*words))
            checked(@replies.read)
          end
        end

        def checked(reply)
          reply.is_a?(Resp::Failure) ? raise(Refused, reply.message) : reply
        end

        def more(io)
          while (bytes = io.read_nonblock(65_536, exception: false)) == :wait_readable
            io.wait_readable(@reply_timeout_s) or raise Refused, "no answer within #{@reply_timeout_s} s"
          end
          bytes or raise EOFError, "the connection was closed"
        end
      end
    end
  end
end
