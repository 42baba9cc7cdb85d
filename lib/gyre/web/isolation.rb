# frozen_string_literal: true

# Active Support keeps the state of a request (Active Record's connection and transaction, I18n,
# current attributes) by thread unless it is set to keep it by fiber. Requests of a Gyre server
# share a thread, so by thread they would get into each other's transactions. Gyre::Web::Server
# calls this before it listens. Nothing is loaded for it: without Active Support nothing is done for
# that. Other gems are ThreadState's; what this finds nothing of, ThreadVariables reports.

require "gyre/cli/errors"
require "gyre/web/interlock"
require "gyre/web/thread_state"
require "gyre/web/thread_variables"

module Gyre
  module Web
    # Sets Active Support's isolation level, or raises the reason why the server cannot start.
    module Isolation
      module_function

      # @param log [#info]
      # @return [void]
      # @raise [StartError] the configuration has :thread, or Active Record supports nothing else
      def apply(log)
        ThreadState.apply(log)
        return refuse_old unless defined?(::ActiveSupport::IsolatedExecutionState)

        count_fibers
        state = ::ActiveSupport::IsolatedExecutionState
        return unless state.isolation_level == :thread

        refuse_thread if configured == :thread
        release_connections
        state.isolation_level = :fiber
        log.info("Active Support's isolation level is :fiber now, for requests share a thread")
      end

      # Rails reloads code while no other thread runs a request; here it has to be no other fiber.
      def count_fibers
        dependencies = ::ActiveSupport::Dependencies if defined?(::ActiveSupport::Dependencies)
        return if !dependencies.respond_to?(:interlock=) || dependencies.interlock.is_a?(Interlock)

        dependencies.interlock = Interlock.new
      end

      # The level in the Rails application's configuration; nil where it has none.
      def configured
        return unless defined?(::Rails.application) && ::Rails.application.respond_to?(:config)

        config = ::Rails.application.config
        config.active_support.isolation_level if config.respond_to?(:active_support)
      end

      # A connection that was lent by thread would never come back.
      def release_connections
        return unless defined?(::ActiveRecord::Base) && ::ActiveRecord::Base.respond_to?(:connection_handler)

        ::ActiveRecord::Base.connection_handler.clear_active_connections!(:all)
      rescue ArgumentError # before Rails 7.1 there are no roles to name
        ::ActiveRecord::Base.connection_handler.clear_active_connections!
      end

      def refuse_thread
        raise StartError, "config.active_support.isolation_level is :thread. Requests share a thread here, so they would share Active Record's " \
                          "connections and transactions. Set it to :fiber, or remove the line: then it is set when the server starts"
      end

      def refuse_old
        return unless defined?(::ActiveRecord::Base)

        raise StartError, "Active Record before 7.0 has one connection for each thread. Requests share a thread here, so they would get into " \
                          "each other's transactions. Rails 7.0 or newer is needed"
      end
      private_class_method :count_fibers, :configured, :release_connections, :refuse_thread, :refuse_old
    end
  end
end
