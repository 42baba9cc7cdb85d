# frozen_string_literal: true

# Finds a key's server by the consistent hash of Dalli and libmemcached, which so find each other's
# keys.

require "digest/sha1"
require "zlib"
require "gyre/memcached/errors"

module Gyre
  module Memcached
    # Servers have many points on a circle of 32-bit numbers; a key belongs to the next point below
    # its CRC-32.
    class Ring
      # Points of an average server.
      POINTS = 160

      # Points to try if a key's server is down.
      DETOURS = 19

      attr_reader :servers

      # Servers' names decide the placement.
      def initialize(servers, failover: true)
        @servers = servers
        @failover = failover
        place if servers.size > 1
      end

      def server_for(key) = find(key, &:alive?) || raise(NoServerError, "No server available")

      # Checks each server once. Omits keys without one.
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

      # Returns the last point up to the hash, or the last of all.
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
