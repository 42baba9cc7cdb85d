# frozen_string_literal: true

# Keeps answers by question until their TTL ends, for Gyre::DNS::Resolver. A full cache drops the
# least recently used entries. Any thread may call its methods.

require "gyre/clock"
require "gyre/sync/spin_lock"

module Gyre
  module DNS
    # A cache for {Resolver#initialize}.
    class Cache
      # Default of `bytes_limit`.
      BYTES_LIMIT = 16 << 20
      # Memory of an entry beside its answer, in bytes.
      ENTRY_BYTES = 500
      Entry = Struct.new(:value, :kept_s, :end_s, :bytes)
      private_constant :ENTRY_BYTES, :Entry

      # @return [Integer] memory of the answers, about
      attr_reader :bytes

      # @param entries_limit [Integer]
      # @param bytes_limit [Integer] memory; 0: keeps nothing
      # @param ttl_s [Range] shortest and longest lifetime; if 0..n, a TTL of 0 is not cached
      # @param negative_ttl_s [Range] the same for names without records (RFC 2308, section 5)
      # @param stale_s [Numeric] how long an answer that has ended is kept for failures of the
      #   name servers (RFC 8767), when questions are forwarded
      def initialize(entries_limit: 4096, bytes_limit: BYTES_LIMIT, ttl_s: 0..86_400, negative_ttl_s: 0..10_800, stale_s: 0)
        @entries_limit = entries_limit
        @bytes_limit = bytes_limit
        @ttl_s = ttl_s
        @negative_ttl_s = negative_ttl_s
        @stale_s = stale_s
        @lock = SpinLock.new
        @counts = { cache_hits: 0, cache_misses: 0, cache_stale: 0 }
        clear
      end

      # @return [Integer]
      def size = @entries.size

      # @return [Hash{Symbol => Integer}]
      def stats = { **@counts, cache_entries: size, cache_bytes: @bytes }

      # @api private
      def [](key) = find(key)&.first

      # Returns the answer and its age in seconds, or nil.
      # @param stale [Boolean] whether the answer may have ended
      # @api private
      def find(key, stale: false)
        @lock.synchronize do
          now_s = Clock.now
          entry = @entries.delete(key)
          if entry && entry.end_s + @stale_s > now_s then @entries[key] = entry # last, because the first is dropped first
          else drop(entry)
          end
          found = entry if @entries.key?(key) && (stale || entry.end_s > now_s)
          @counts[stale ? :cache_stale : found ? :cache_hits : :cache_misses] += 1 if found || !stale
          found && [found.value, (now_s - found.kept_s).to_i]
        end
      end

      # Does not keep an answer whose TTL is nil or 0, or that is larger than the cache.
      # @param bytes [Integer] of memory
      # @api private
      def store(key, value, ttl_s, bytes = 0, negative: false)
        ttl_s &&= ttl_s.clamp(negative ? @negative_ttl_s : @ttl_s)
        bytes += ENTRY_BYTES
        return if ttl_s.nil? || ttl_s.zero? || bytes > @bytes_limit

        @lock.synchronize do
          drop(@entries.delete(key))
          @entries[key] = Entry.new(value, Clock.now, Clock.now + ttl_s, bytes)
          @bytes += bytes
          drop(@entries.shift.last) while @entries.size > @entries_limit || @bytes > @bytes_limit
        end
      end

      # Forgets all answers.
      def clear
        @entries = {} # question => Entry
        @bytes = 0
      end

      private

      def drop(entry) = @bytes -= entry ? entry.bytes : 0
    end
  end
end
