# frozen_string_literal: true

# What is known of one item beside its value. Made by the client's methods that end in `_result`.

module Gyre
  module Memcached
    # An item's value and metadata, frozen.
    class Result
      # @return [Object, nil]
      attr_reader :value
      # @return [Integer] 0: it is missing
      attr_reader :cas
      # @return [Boolean, nil] whether it was read before; nil: was not asked for, as in the others
      attr_reader :hit_before
      # @return [Integer, nil] how many seconds ago it was read last
      attr_reader :last_access
      # @return [Integer, nil] seconds; -1: for ever
      attr_reader :ttl_remaining

      # @param fields [Hash{Symbol => Object}] as Client#get_with_metadata returns them
      # @raise [ArgumentError] for an item that is missing and stale
      def initialize(fields)
        @value, @cas, @hit_before, @last_access, @ttl_remaining = fields.values_at(:value, :cas, :hit_before, :last_access, :ttl_remaining)
        @miss, @stale, @won, @lost = fields.values_at(:miss, :stale, :won_recache, :lost_recache).map { |flag| flag ? true : false }
        raise ArgumentError, "an item that is missing cannot be stale" if @miss && @stale

        freeze
      end

      # @return [Boolean] whether there is no such item
      def miss? = @miss

      # @return [Boolean]
      def hit? = !@miss

      # @return [Boolean] whether it was invalidated
      def stale? = @stale

      # @return [Boolean] whether the caller is the one to make it again
      def won_recache? = @won

      # @return [Boolean] whether another is making it again
      def lost_recache? = @lost
    end
  end
end
