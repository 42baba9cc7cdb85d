# frozen_string_literal: true

# An item with metadata, from methods with `_result`.

module Gyre
  module Memcached
    # `cas` 0: missing; `last_access`: seconds ago; `ttl_remaining`: seconds, -1: no expiry.
    # nil: not asked for.
    Result = Struct.new(:value, :cas, :hit_before, :last_access, :ttl_remaining, :miss, :stale, :won_recache, :lost_recache,
      keyword_init: true) do
      def miss? = miss

      def hit? = !miss

      def stale? = stale == true

      # True if the caller must refresh the value.
      def won_recache? = won_recache == true

      # True if another caller refreshes the value.
      def lost_recache? = lost_recache == true
    end
  end
end
