# frozen_string_literal: true

# Limits running requests to Active Record's pool of connections, unless requests_limit is set:
# further requests would wait for a connection, fail after five seconds
# (ActiveRecord::ConnectionTimeoutError), and hold a fiber meanwhile. Called by Gyre::Web::Server
# before it listens. The process that forks workers calls it too, once, only to log the limit. Loads
# and connects nothing.

module Gyre
  module Web
    # The smallest pool used for writing.
    module DatabasePool
      module_function

      # Returns limits with requests_limit set to the pool's size; `place` names the scope of the
      # number in the log.
      def apply(limits, log, place: nil)
        pool = smallest or return limits

        name = " #{pool.db_config.name}" if pool.respond_to?(:db_config)
        count = "#{pool.size} requests run at a time#{" #{place}" if place}"
        log.info("#{count}, as many as Active Record's pool#{name} has connections; others wait. requests_limit sets another number")
        limits.with(requests_limit: pool.size)
      end

      # Returns nil without a bounded pool.
      def smallest
        return unless defined?(::ActiveRecord::Base) && ::ActiveRecord::Base.respond_to?(:connection_handler)

        handler = ::ActiveRecord::Base.connection_handler
        pools = handler.respond_to?(:connection_pool_list) ? handler.connection_pool_list(:writing) : []
        pools.select { |pool| pool.size.is_a?(Integer) && pool.size.positive? }.min_by(&:size)
      end
      private_class_method :smallest
    end
  end
end
