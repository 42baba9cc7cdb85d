# frozen_string_literal: true

# With Active Record, as many requests run at a time as its pool has connections, unless
# requests_limit is set: those beyond would wait for a connection, fail after five seconds
# (ActiveRecord::ConnectionTimeoutError), and hold a fiber each meanwhile. Gyre::Web::Server calls
# this before it listens, and the process that forks workers once, for the log. Nothing is loaded
# for it, and nothing connects.

module Gyre
  module Web
    # The smallest pool that requests write through.
    module DatabasePool
      module_function

      # @param limits [Gyre::HTTP::Limits]
      # @param log [#info]
      # @param place [String, nil] what the number counts for, in the log
      # @return [Gyre::HTTP::Limits] with requests_limit as large as the pool, where there is one
      def apply(limits, log, place: nil)
        pool = smallest or return limits

        name = " #{pool.db_config.name}" if pool.respond_to?(:db_config)
        count = "#{pool.size} requests run at a time#{" #{place}" if place}"
        log.info("#{count}, as many as Active Record's pool#{name} has connections; others wait. requests_limit sets another number")
        limits.with(requests_limit: pool.size)
      end

      # @return [ActiveRecord::ConnectionAdapters::ConnectionPool, nil] nil where there is none, or
      #   none with a bound
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
