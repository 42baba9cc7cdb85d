# frozen_string_literal: true

# Keeps the last sequence numbers of acknowledged clients in a hash beside a Redis Stream. Used by
# Output::Redis, which writes it with each batch. Read once at the start; before that, and if
# clients move between servers (`shared`), Redis is asked about each session.

require "gyre/clock"
require "gyre/log/output/redis_connection"

module Gyre
  module Log
    module Output
      # id => "sequence number, time".
      class RedisClients
        # Clients unseen for longer are forgotten, as in a journal.
        FORGET_AFTER_S = 30 * 24 * 3600
        FORGOTTEN_EVERY_S = 24 * 3600
        # Time for an answer about a client, and for its connection, while the client waits.
        ASK_TIMEOUT_S = 1
        # A failed question is repeated after this many times its duration.
        ASK_PAUSE = 10

        attr_reader :key

        def initialize(url, key, name, retries, connection, shared:, clock:)
          @key, @name, @connection, @shared, @clock = key, name, connection, shared, clock
          @asking = RedisConnection.new(url, retries, connect_timeout_s: ASK_TIMEOUT_S, reply_timeout_s: ASK_TIMEOUT_S)
          @stored = @silence = nil
          @turn = Thread::Mutex.new # one question at a time
          @forgotten_at = 0
        end

        def prepare
          @stored ||= read.transform_values(&:first) unless @shared
        end

        # Returns the command that stores sequence numbers; empty without clients.
        def command(clients)
          time = @clock.call.to_i
          clients.empty? ? "" : Resp.command("HSET", @key, *clients.flat_map { |id, seq| [id, "#{seq} #{time}"] })
        end

        # Notes what Redis has stored. Forgets old clients now and then.
        def stored(clients)
          @stored&.update(clients)
          now = @clock.call.to_i
          return if now - @forgotten_at < FORGOTTEN_EVERY_S

          @forgotten_at = now
          old = read.select { |_, (_, time)| time && now - time > FORGET_AFTER_S }.keys
          old.each { |id| @stored&.delete(id) }
          old.each_slice(1000) { |ids| @connection.ask("forget old clients", ["HDEL", @key, *ids]) }
        end

        # Asks Redis, for a short time, if the client may have used another server; one task after
        # the other. Returns 0 for an unknown client. Raises Unavailable.
        def stored_by(client_id)
          return @stored.fetch(client_id, 0) if @stored

          @turn.synchronize do
            raise Unavailable, @silence if @silence && Clock.now < @silent_until

            ask_about(client_id)
          end
        end

        def shared? = @stored.nil?

        def close
          @silence = nil
          @asking.close
        end

        private

        def ask_about(client_id)
          began = Clock.now
          @silence = nil
          @asking.try("read from #{@name}", ["HGET", @key, client_id]).first.to_i
        rescue Unavailable => error
          now = Clock.now
          @silent_until = now + (ASK_PAUSE * (now - began))
          @silence = error.message
          raise
        end

        # Reads each client's last sequence number and its time.
        def read
          table, = @connection.ask("read from it", ["HGETALL", @key])
          table.each_slice(2).to_h { |id, text| [id, text.split.map(&:to_i)] }
        end
      end
    end
  end
end
