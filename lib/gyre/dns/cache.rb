# frozen_string_literal: true

# Keeps answers by question until their TTL ends, for Gyre::DNS::Resolver. A full cache drops the
# least recently used entry. Any thread may call its methods.

require "gyre/clock"

module Gyre
  module DNS
    # A cache for {Resolver#initialize}.
    class Cache
      # @param entries_limit [Integer]
      # @param ttl_s [Range] shortest and longest lifetime; if 0..n, a TTL of 0 is not cached
      # @param negative_ttl_s [Range] the same for names without records (RFC 2308, section 5)
      def initialize(entries_limit: 4096, ttl_s: 0..86_400, negative_ttl_s: 0..10_800)
        @entries_limit = entries_limit
        @ttl_s = ttl_s
        @negative_ttl_s = negative_ttl_s
        @entries = {} # question => [value, time when it ends]
      end

      # @return [Integer]
      def size = @entries.size

      # @api private
      def [](key)
        entry = @entries.delete(key)
        return if entry.nil? || entry.last <= Clock.now

        @entries[key] = entry # at the end, because the first entry is dropped first
        entry.first
      end

      # Does not keep an answer whose TTL is nil or 0.
      # @api private
      def store(key, value, ttl_s, negative: false)
        ttl_s &&= ttl_s.clamp(negative ? @negative_ttl_s : @ttl_s)
        return if ttl_s.nil? || ttl_s.zero?

        @entries.delete(key)
        @entries[key] = [value, Clock.now + ttl_s]
        @entries.shift while @entries.size > @entries_limit
      end

      # Forgets all answers.
      def clear = @entries.clear
    end
  end
end
