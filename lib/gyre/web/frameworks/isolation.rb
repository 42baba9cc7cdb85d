# frozen_string_literal: true

# Sets Active Support's isolation level to :fiber. At the level :thread, requests would share
# transactions, I18n and current attributes. Called by Gyre::Web::Server before it listens. Loads
# nothing. ThreadState handles other gems; ThreadVariables reports other thread variables.

require "gyre/errors"
require "gyre/web/frameworks/interlock"
require "gyre/web/frameworks/thread_state"

module Gyre
  module Web
    module Isolation
      module_function

      # Raises StartError if the app configures :thread or its Active Record supports only threads.
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

      # Makes Rails' reloader wait for fibers instead of threads.
      def count_fibers
        dependencies = ::ActiveSupport::Dependencies if defined?(::ActiveSupport::Dependencies)
        return if !dependencies.respond_to?(:interlock=) || dependencies.interlock.is_a?(Interlock)

        dependencies.interlock = Interlock.new
      end

      # Returns the level that the Rails application configures, or nil.
      def configured
        return unless defined?(::Rails.application) && ::Rails.application.respond_to?(:config)

        config = ::Rails.application.config
        config.active_support.isolation_level if config.respond_to?(:active_support)
      end

      # Releases connections that this thread has leased: otherwise they never return to the pool.
      def release_connections
        return unless defined?(::ActiveRecord::Base) && ::ActiveRecord::Base.respond_to?(:connection_handler)

        ::ActiveRecord::Base.connection_handler.clear_active_connections!(:all)
      rescue ArgumentError # before Rails 7.1 roles cannot be named
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
    end
  end
end
