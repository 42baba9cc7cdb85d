# frozen_string_literal: true

# Sets Active Support's isolation level to :fiber. At the level :thread, requests would share
# transactions, I18n and current attributes. Called by Gyre::Web::Server before it listens. Loads
# nothing. ExecutionState lets a request's inner fibers share its state; ThreadState handles other
# gems; ThreadVariables reports other thread variables.

require "gyre/web/frameworks/dataloader"
require "gyre/web/frameworks/execution_state"
require "gyre/web/frameworks/interlock"
require "gyre/web/frameworks/thread_state"

module Gyre
  module Web
    module Isolation
      module_function

      # Raises StartError if the app configures :thread or its Active Record supports only threads.
      def apply(log)
        ThreadState.apply(log)
        Dataloader.apply(log)
        refuse_old if defined?(::ActiveRecord::Base) && old?
        return unless defined?(::ActiveSupport::IsolatedExecutionState)

        count_fibers
        Job.executor = executor
        state = ::ActiveSupport::IsolatedExecutionState
        return ExecutionState.install if state.isolation_level == :fiber

        refuse_thread if configured == :thread
        release_connections
        ExecutionState.install
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
        config = rails_config
        config.active_support.isolation_level if config.respond_to?(:active_support)
      end

      # Returns a setting of the Rails application's `config.gyre`; without one the usual value.
      def setting(name, usual = nil)
        config = rails_config
        config.respond_to?(:gyre) ? config.gyre.public_send(name) : usual
      end

      # Returns the configuration of the Rails application, or nil.
      def rails_config = (::Rails.application.config if defined?(::Rails.application) && ::Rails.application.respond_to?(:config))

      # Returns Rails' executor, in which events of WebSocket handlers and live pages run; nil
      # without Rails, or if the app has set `config.gyre.executor = false`.
      def executor
        return unless defined?(::Rails.application) && ::Rails.application.respond_to?(:executor)

        ::Rails.application.executor if setting(:executor, true)
      end

      # Releases connections that this thread has leased: otherwise they never return to the pool.
      def release_connections
        return unless defined?(::ActiveRecord::Base) && ::ActiveRecord::Base.respond_to?(:connection_handler)

        ::ActiveRecord::Base.connection_handler.clear_active_connections!(:all)
      end

      def refuse_thread
        raise StartError, "config.active_support.isolation_level is :thread. Requests share a thread here, so they would share Active Record's " \
                          "connections and transactions. Set it to :fiber, or remove the line: then it is set when the server starts"
      end

      # Active Record 7.0 keeps connections by thread at each isolation level.
      def old? = !::ActiveRecord.respond_to?(:version) || ::ActiveRecord.version < ::Gem::Version.new("7.1")

      def refuse_old
        raise StartError, "Active Record before 7.1 has one connection for each thread. Requests share a thread here, so they would get into " \
                          "each other's transactions. Rails 7.1 or newer is needed"
      end
    end
  end
end
