# frozen_string_literal: true

# Last sequence numbers of acknowledged clients, in a hash beside a Redis Stream. Output::Redis
# writes them with each batch, and reads them once.

require "gyre/log/output/defaults"
require "gyre/log/output/redis_connection"

module Gyre
  module Log
    module Output
      # Values of the hash: id => "sequence number, time".
      class RedisClients
        # As in a journal.
        FORGET_AFTER_S = 30 * 24 * 3600
        FORGOTTEN_EVERY_S = 24 * 3600

        attr_reader :key

        def initialize(key, name, connection, clock)
          @key, @name, @connection, @clock = key, name, connection, clock
          @stored = nil
          @forgotten_at = 0
        end

        def prepare
          @stored ||= read.transform_values(&:first)
        end

        # Returns the command that stores sequence numbers; empty without clients.
        def command(clients)
          time = @clock.call.to_i
          clients.empty? ? "" : Resp.command("HSET", @key, *clients.flat_map { |id, seq| [id, "#{seq} #{time}"] })
        end

        # Sometimes forgets old clients.
        def stored(clients)
          @stored.update(clients)
          now = @clock.call.to_i
          return if now - @forgotten_at < FORGOTTEN_EVERY_S

          @forgotten_at = now
          old = read.select { |_, (_, time)| time && now - time > FORGET_AFTER_S }.keys
          old.each { |id| @stored.delete(id) }
          old.each_slice(1000) { |ids| @connection.ask("forget old clients", ["HDEL", @key, *ids]) }
        end

        # Returns 0 for an unknown client. Raises Unavailable until the hash is read.
        def stored_by(client_id)
          raise Unavailable, "#{@name}: its clients have not been read yet" unless @stored

          @stored.fetch(client_id, 0)
        end

        private

        def read
          table, = @connection.ask("read from it", ["HGETALL", @key])
          table.each_slice(2).to_h { |id, text| [id, text.split.map(&:to_i)] }
        end
      end
    end
  end
end
