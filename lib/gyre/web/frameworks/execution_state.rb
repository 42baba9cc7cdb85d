# frozen_string_literal: true

# Gives Active Support's state (current attributes, time zone, tags of the log, Active Record's
# roles, connections and transactions) to the job: code in fibers that a request makes has the
# request's state, as in a thread. Installed by the Railtie in all processes, and by Isolation.
# Loads no part of Rails.

require "gyre/scheduler/job"

module Gyre
  module Web
    # For the isolation level :fiber of Rails 7.1 and newer.
    module ExecutionState
      # Stands for the class Fiber in Active Support, which asks it for the owner of the state.
      SCOPE = Job
      # The fiber whose request a thread of ActionController::Live serves.
      REQUEST = :gyre_live_request

      # Prepended to IsolatedExecutionState's singleton class.
      module Sharing
        # Keeps the scope when an app sets the level again.
        def isolation_level=(level)
          super
          @scope = SCOPE if level == :fiber
        end

        # Up to 8.1 Rails passes the request's thread, which many requests share.
        def share_with(other, *rest, **options, &block)
          super((Thread.current[REQUEST] if other.is_a?(Thread)) || other, *rest, **options, &block)
        end
      end

      # Prepended to ActionController::Live, whose actions run in a thread of their own.
      module Live
        private

        def new_controller_thread
          request = ::ActiveSupport::IsolatedExecutionState.context
          super do
            Thread.current[REQUEST] = request
            yield
          ensure
            Thread.current[REQUEST] = nil
          end
        end
      end

      # The lock of a connection that a test shares with the requests of its server. Its owner is a
      # job with all its fibers; that of Active Support's locks is a thread or a fiber.
      class Lock
        def initialize = @mutex = Thread::Mutex.new

        def synchronize
          owner = Job.current
          return yield if owner.equal?(@owner)

          @mutex.synchronize do
            @owner = owner
            yield
          ensure
            @owner = nil
          end
        end
      end

      # Prepended to Active Record's adapters.
      module Locking
        def lock_thread=(thread)
          super
          @lock = Lock.new if thread && ::ActiveSupport::IsolatedExecutionState.scope == SCOPE
        end
      end

      module_function

      # Does nothing if it is installed. The isolation level may be set before or after.
      def install
        state = ::ActiveSupport::IsolatedExecutionState
        return if state.singleton_class < Sharing || !state.respond_to?(:scope)

        state.singleton_class.prepend(Sharing)
        state.instance_variable_set(:@scope, SCOPE) if state.isolation_level == :fiber
        ::ActiveSupport.on_load(:action_controller) { ::ActionController::Live.prepend(Live) }
        ::ActiveSupport.on_load(:active_record) { ::ActiveRecord::ConnectionAdapters::AbstractAdapter.prepend(Locking) }
      end
    end
  end
end
