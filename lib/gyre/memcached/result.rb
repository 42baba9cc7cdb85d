# frozen_string_literal: true

# An item with metadata, from methods with `_result`.

module Gyre
  module Memcached
    class Result
      attr_reader :value
      attr_reader :cas # 0: missing
      attr_reader :hit_before # nil: not asked for, as in the others
      attr_reader :last_access # seconds ago
      attr_reader :ttl_remaining # seconds; -1: no expiry

      def initialize(fields)
        @value, @cas, @hit_before, @last_access, @ttl_remaining = fields.values_at(:value, :cas, :hit_before, :last_access, :ttl_remaining)
        @miss, @stale, @won, @lost = fields.values_at(:miss, :stale, :won_recache, :lost_recache).map { |flag| flag ? true : false }
        raise ArgumentError, "an item that is missing cannot be stale" if @miss && @stale

        freeze
      end

      def miss? = @miss

      def hit? = !@miss

      def stale? = @stale

      # True if the caller must refresh the value.
      def won_recache? = @won

      # True if another caller refreshes the value.
      def lost_recache? = @lost
    end
  end
end
