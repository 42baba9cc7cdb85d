# frozen_string_literal: true

# Limits running requests, together with the work of cables (Cable), to the size of Active Record's
# pool, unless requests_limit is set. More requests would wait for a connection and fail after five
# seconds (ActiveRecord::ConnectionTimeoutError). Called by Gyre::Web::Server before it listens, and
# once by the mold to log the limit. Opens no connection.

module Gyre
  module Web
    # Considers only pools with the role :writing.
    module DatabasePool
      module_function

      # Returns limits with the pool's size as requests_limit. `place`: where it holds, for the log.
      def apply(limits, log, place: nil)
        pool = smallest or return limits

        name = " #{pool.db_config.name}" if pool.respond_to?(:db_config)
        count = "#{pool.size} requests run at a time#{" #{place}" if place}"
        log.info("#{count}, as many as Active Record's pool#{name} has connections; others wait. requests_limit sets another number")
        limits.with(requests_limit: pool.size)
      end

      # Returns the smallest pool; nil if no pool has a size.
      def smallest
        return unless defined?(::ActiveRecord::Base) && ::ActiveRecord::Base.respond_to?(:connection_handler)

        handler = ::ActiveRecord::Base.connection_handler
        pools = handler.respond_to?(:connection_pool_list) ? handler.connection_pool_list(:writing) : []
        pools.select { |pool| pool.size.is_a?(Integer) && pool.size.positive? }.min_by(&:size)
      end
    end

    # Makes Rails respond with 503 instead of 500 when a request exceeds --request-timeout: adds to
    # `config.action_dispatch.rescue_responses`. Loads nothing.
    module RescueResponses
      NAME = "Gyre::HTTP::RequestTimeout"

      module_function

      # Keeps an entry that the application has made.
      def apply
        return unless defined?(::ActionDispatch::ExceptionWrapper)

        wrapper = ::ActionDispatch::ExceptionWrapper
        responses = wrapper.rescue_responses # frozen from Rails 8.2 on
        wrapper.rescue_responses = responses.merge(NAME => :service_unavailable) unless responses.key?(NAME)
      end
    end
  end
end
