# frozen_string_literal: true

# Finds a key's server by the same consistent hash as Dalli and libmemcached.

require "digest/sha1"
require "zlib"
require "gyre/memcached/errors"

module Gyre
  module Memcached
    # Each server has many points on a circle of 32-bit numbers. A key belongs to the server of the
    # nearest point at or below the key's CRC-32.
    class Ring
      # Points of a server with average weight.
      POINTS = 160

      # Maximum other points to try if a key's server is down.
      DETOURS = 19

      attr_reader :servers

      def initialize(servers, failover: true)
        @servers = servers
        @failover = failover
        place if servers.size > 1
      end

      def server_for(key) = find(key, &:alive?) || raise(NoServerError, "No server available")

      # Groups keys by server. Checks each server once. Omits keys without an available server.
      def groups(keys)
        alive = Hash.new { |known, server| known[server] = server.alive? }.compare_by_identity
        groups = keys.group_by { |key| find(key) { |server| alive[server] } }
        groups.delete(nil)
        groups.compare_by_identity
      end

      private

      def find(key)
        return @servers.find { |server| yield(server) } unless @points

        server = at(Zlib.crc32(key))
        return server if yield(server)
        return unless @failover

        DETOURS.times do |number|
          server = at(Zlib.crc32("#{number}#{key}"))
          return server if yield(server)
        end
        nil
      end

      # Returns the server of the last point at or below `hash`, or of the circle's last point.
      def at(hash)
        above = @points.bsearch_index { |point| point > hash } || @points.size
        @owners[above - 1]
      end

      def place
        weights = @servers.sum(&:weight)
        pairs = @servers.flat_map do |server|
          count = (@servers.size * POINTS * server.weight / Float(weights)).floor
          Array.new(count) { |index| [Digest::SHA1.hexdigest("#{server.name}:#{index}")[0, 8].hex, server] }
        end
        pairs = pairs.sort_by(&:first)
        @points = pairs.map(&:first).freeze
        @owners = pairs.map(&:last).freeze
      end
    end
  end
end
