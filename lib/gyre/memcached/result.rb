# frozen_string_literal: true

# An item with metadata, returned by methods whose name ends with `_result`.

module Gyre
  module Memcached
    # `cas` is 0 if the key is missing. `last_access` and `ttl_remaining` are in seconds; -1 means
    # no expiry. Fields that were not requested are nil.
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
