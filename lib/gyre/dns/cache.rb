# frozen_string_literal: true

# Answers by question, each until its TTL is over. Gyre::DNS::Resolver fills it, and decides how
# long an answer is good. Bounded: the entry that was unused for the longest time leaves first.
# Every thread may call it.

require "gyre/clock"

module Gyre
  module DNS
    # Made for {Resolver#initialize}.
    class Cache
      # The usual entries_limit.
      ENTRIES_LIMIT = 4096
      # The limits of the seconds for which an answer is kept.
      TTL_S = (0..86_400).freeze
      # The same for names that do not exist (RFC 2308, section 5): once they do, they are found
      # within some hours.
      NEGATIVE_TTL_S = (0..10_800).freeze

      Entry = Struct.new(:value, :until_s)
      private_constant :Entry

      # @return [Integer]
      attr_reader :entries_limit

      # @param entries_limit [Integer]
      # @param ttl_s [Range] the least and the longest time that an answer stays; 0 in it keeps
      #   none without a TTL
      # @param negative_ttl_s [Range] the same for an answer without records
      def initialize(entries_limit: ENTRIES_LIMIT, ttl_s: TTL_S, negative_ttl_s: NEGATIVE_TTL_S)
        @entries_limit = entries_limit
        @ttl_s = ttl_s
        @negative_ttl_s = negative_ttl_s
        @entries = {}
      end

      # @return [Integer]
      def size = @entries.size

      # @api private
      def [](key)
        entry = @entries.delete(key) or return
        return if entry.until_s <= Clock.now

        @entries[key] = entry # now the last one to leave
        entry.value
      end

      # With a TTL of nil the answer is not kept; only the present callers get it.
      # @api private
      def store(key, value, ttl_s, negative: false)
        ttl_s &&= ttl_s.clamp(negative ? @negative_ttl_s : @ttl_s)
        return if ttl_s.nil? || ttl_s.zero?

        @entries.delete(key)
        @entries[key] = Entry.new(value, Clock.now + ttl_s)
        @entries.shift while @entries.size > @entries_limit
      end

      # Forgets all.
      # @return [void]
      def clear = @entries.clear
    end
  end
end
