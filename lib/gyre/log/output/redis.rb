# frozen_string_literal: true

# An output to a Redis Stream, the way past one machine: several servers add to one stream,
# consumers read it in groups. Made by Output.open; its sink gives finished XADD commands (Ingest,
# format :redis, with `key` as the stream's name).
#
#   MULTI
#     XADD stream * …                        each line of the batch
#     XTRIM stream MAXLEN ~ n                if max_length is set
#     HSET {stream}:clients id "seq time" …  what the acknowledged clients have stored with it
#     SET {stream}:writer:<ours> n EX …      which of our batches this was
#   EXEC
#
# So a batch, its clients' sequence numbers and its own number are in Redis together or not at all.
# When the connection broke before the answer, the number shows on the next one whether the batch is
# there. Redis keeps what its own configuration promises: `appendonly yes` and `appendfsync always`
# for acknowledgements that outlive its machine.
#
# What clients have stored is read once, at the beginning. Until then, and always where clients move
# between servers (`shared`), Redis is asked for each session.

require "gyre/clock"
require "gyre/log/output/defaults"
require "gyre/log/output/redis_connection"
require "gyre/log/output/retry"
require "securerandom"

module Gyre
  module Log
    module Output
      # XADD commands to a Redis server.
      class Redis
        include Defaults

        STREAM = "gyre"
        # A client from which nothing has come for so long is forgotten, as in a journal.
        FORGET_AFTER_S = 30 * 24 * 3600
        FORGOTTEN_EVERY_S = 24 * 3600
        WRITER_KEPT_S = 24 * 3600
        # For a server's answer about one client, and for a connection to ask on: a client waits for
        # it.
        ASK_TIMEOUT_S = 1
        # After it could not be asked, it is not asked again for so many times as long as that took.
        ASK_PAUSE = 10

        # @return [String] the stream's name
        attr_reader :key

        # @param url [String] see RedisConnection
        # @param stream [String]
        # @param max_length [Integer, nil] about how many entries are kept
        # @param shared [Boolean] whether clients may have stored something through other servers
        #   meanwhile
        # @param report [#call, nil]
        # @param clock [#call] gives the Time
        # @raise [ArgumentError]
        def initialize(url, stream: STREAM, max_length: nil, shared: false, report: nil, clock: Time.method(:now), **waits)
          @key = stream
          @clients_key = "{#{stream}}:clients"
          @writer_key = "{#{stream}}:writer:#{SecureRandom.hex(16)}"
          @clock = clock
          @name = "#{RedisConnection.shown(url)} #{stream}"
          @format = :redis
          @retries = Retry.new(@name, report: report, **waits)
          @writing = RedisConnection.new(url, @retries)
          @asking = RedisConnection.new(url, @retries, connect_timeout_s: ASK_TIMEOUT_S, reply_timeout_s: ASK_TIMEOUT_S)
          @shared = shared
          @trim = max_length ? Resp.command("XTRIM", stream, "MAXLEN", "~", max_length) : ""
          @batch = 0
          @forgotten_at = 0
          @stored = @silence = nil
          @turn = Thread::Mutex.new # to ask
        end

        # Reads what clients have stored.
        def prepare
          @stored ||= read_clients.transform_values(&:first) unless @shared
        end

        # Stores a batch, once.
        # @param data [String] XADD commands
        # @param clients [Hash{String=>Integer}]
        def write(data, clients = nil)
          prepare
          number = nil
          @writing.use("store in it") do |redis|
            next if number && redis.call(["GET", @writer_key]).first == number.to_s

            check_types(redis)
            number = @batch += 1
            redis.write(transaction(data, clients, number))
            number = nil unless (failure = failure_in(redis, number)).nil?
            raise RedisConnection::Refused, failure if failure
          end
          @stored&.update(clients) if clients
          forget
        end

        # New connections from now on.
        def reopen = close

        def close
          @silence = nil
          @writing.close
          @asking.close
        end

        # What one client has stored by now. Where it may have done that through another server,
        # this waits for Redis, but not for long; one task after the other.
        # @param client_id [String]
        # @return [Integer] 0 for an unknown one
        # @raise [Unavailable]
        def stored_by(client_id)
          return @stored.fetch(client_id, 0) if @stored

          @turn.synchronize do
            raise Unavailable, @silence if @silence && Clock.now < @silent_until

            ask_about(client_id)
          end
        end

        # @return [Boolean] clients may come here from other servers: what is known of one is right
        #   for one session only
        def shared? = @stored.nil?

        # @return [Hash]
        def sink_options = { format: @format, key: @key }

        private

        def ask_about(client_id)
          began = Clock.now
          @silence = nil
          @asking.try("read from #{self}", ["HGET", @clients_key, client_id]).first.to_i
        rescue Unavailable => error
          now = Clock.now
          @silent_until = now + (ASK_PAUSE * (now - began))
          @silence = error.message
          raise
        end

        def transaction(data, clients, number)
          bytes = Resp.command("MULTI") << data << @trim
          if clients && !clients.empty?
            time = @clock.call.to_i
            bytes << Resp.command("HSET", @clients_key, *clients.flat_map { |id, seq| [id, "#{seq} #{time}"] })
          end
          bytes << Resp.command("SET", @writer_key, number, "EX", WRITER_KEPT_S) << Resp.command("EXEC") <<
            Resp.command("ECHO", "end of #{number}")
        end

        # A command that fails inside of EXEC does not stop the others: nothing may be wrong
        # beforehand.
        def check_types(redis)
          types = redis.call(["TYPE", @key], ["TYPE", @clients_key])
          return if %w[stream none].include?(types[0]) && %w[hash none].include?(types[1])

          raise RedisConnection::Refused, "#{@key} is a #{types[0]} and #{@clients_key} a #{types[1]}, not a stream and a hash"
        end

        # Reads up to the ECHO: an EXEC that went through answers an Array. What is there of one
        # that did not is unknown; it is stored again under another number.
        # @return [String, nil] nil when all is well
        def failure_in(redis, number)
          failure = done = nil
          until (reply = redis.read) == "end of #{number}"
            failure ||= reply if reply.is_a?(Resp::Failure)
            done = reply if reply.is_a?(Array)
          end
          failure ||= done&.find { |each| each.is_a?(Resp::Failure) }
          failure ? failure.message : (done ? nil : "the transaction was not executed")
        end

        # Now and then.
        def forget
          now = @clock.call.to_i
          return if now - @forgotten_at < FORGOTTEN_EVERY_S

          @forgotten_at = now
          old = read_clients.select { |_, (_, time)| time && now - time > FORGET_AFTER_S }.keys
          old.each { |id| @stored&.delete(id) }
          old.each_slice(1000) { |ids| @writing.ask("forget old clients", ["HDEL", @clients_key, *ids]) }
        end

        # @return [Hash{String => Array(Integer, Integer)}] each client's last sequence number and
        #   when it was stored
        def read_clients
          table, = @writing.ask("read from it", ["HGETALL", @clients_key])
          table.each_slice(2).to_h { |id, text| [id, text.split.map(&:to_i)] }
        end
      end
    end
  end
end
