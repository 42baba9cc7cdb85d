# frozen_string_literal: true

# EventMachine's Deferrable and Completion. Deferrable works without initialize, because
# connections, requests and programs' objects include it.

module Gyre
  module EventMachine
    # Callbacks for an operation's success or failure. Success drops the errbacks; failure drops the
    # callbacks.
    module Deferrable
      # Adds the callbacks to `source` if it is a Deferrable. Otherwise returns `source`.
      # @param source [Deferrable, #call, Object] a callable is called first
      # @param callback [#call, nil]
      # @param errback [#call, nil]
      # @return [Object] the Deferrable or the value
      def self.future(source, callback = nil, errback = nil, &block)
        source = source.call if source.respond_to?(:call)
        return source unless source.respond_to?(:set_deferred_status)

        source.callback(&(callback || block))
        source.errback(&errback)
        source
      end

      # Calls the block on success; immediately if the status is already success.
      # @return [self]
      def callback(&block) = on_deferred_status(:succeeded, :failed, @callbacks ||= [], block)

      # Calls the block on failure; immediately if the status is already failure.
      # @return [self]
      def errback(&block) = on_deferred_status(:failed, :succeeded, @errbacks ||= [], block)

      # @param block [Proc] a callback not called yet
      def cancel_callback(block) = @callbacks&.delete(block)

      # @param block [Proc] an errback not called yet
      def cancel_errback(block) = @errbacks&.delete(block)

      # Calls the callbacks of the new status. If a callback changes the status again, the remaining
      # callbacks get the new arguments.
      # @param status [Symbol] `:unknown`, `:succeeded`, `:failed`
      # @param args [Array] for the callbacks
      def set_deferred_status(status, *args)
        cancel_timeout
        @deferred_status = status
        @deferred_args = args
        call_deferred(@callbacks, @errbacks) if status == :succeeded
        call_deferred(@errbacks, @callbacks) if status == :failed
      end

      # @param args [Array] for the callbacks
      def succeed(*args) = set_deferred_status(:succeeded, *args)
      alias set_deferred_success succeed

      # @param args [Array] for the errbacks
      def fail(*args) = set_deferred_status(:failed, *args)
      alias set_deferred_failure fail

      # Fails after `seconds`, unless the status changes before.
      # @param seconds [Numeric]
      # @param args [Array] for the errbacks
      # @return [self]
      def timeout(seconds, *args)
        cancel_timeout
        @deferred_timeout = Timer.new(seconds) { self.fail(*args) }
        self
      end

      # Does nothing if no timeout is set.
      def cancel_timeout
        @deferred_timeout&.cancel
        @deferred_timeout = nil
      end

      private

      def on_deferred_status(status, opposite, waiting, block)
        return self unless block

        case @deferred_status ||= :unknown
        when status then block.call(*@deferred_args)
        when opposite then nil
        else waiting << block
        end
        self
      end

      def call_deferred(due, dropped = nil)
        while (block = due&.shift)
          block.call(*@deferred_args)
        end
        dropped&.clear
      end
    end

    # A plain Deferrable.
    class DefaultDeferrable
      include Deferrable
    end

    # A Deferrable with arbitrary states.
    class Completion
      include Deferrable

      # @return [Symbol] `:unknown` at first
      def state = @deferred_status

      # @return [Array] the arguments of the last change
      def value = @deferred_args

      def initialize
        @deferred_status = :unknown
        @deferred_args = []
        @callbacks = Hash.new { |callbacks, state| callbacks[state] = [] }
      end

      # Calls back when the state is entered, or immediately if it is the present state. Entering a
      # completing state drops the callbacks of all completing states.
      # @param state [Symbol] a state; `:completed` is each of {#completion_states}
      # @return [self]
      def stateback(state, *callable, &block)
        callback = EventMachine.Callback(*callable, &block)
        if state == self.state || (state == :completed && completed?)
          callback.call(*value)
        elsif !completed? || !completion_states.include?(state)
          @callbacks[state] << callback
        end
        self
      end

      # Calls back on success.
      def callback(*callable, &block) = stateback(:succeeded, *callable, &block)

      # Calls back on failure.
      def errback(*callable, &block) = stateback(:failed, *callable, &block)

      # Calls back on success and on failure.
      def completion(*callable, &block) = stateback(:completed, *callable, &block)

      # @param state [Symbol]
      # @param args [Array] for the callbacks
      def change_state(state, *args)
        @deferred_status = state
        @deferred_args = args
        cancel_timeout if completed?
        EventMachine.schedule { call_back(state) } # the caller may be another thread
      end
      alias set_deferred_status change_state

      # @return [Boolean]
      def completed? = completion_states.include?(state)

      # @return [Array<Symbol>] the completing states; subclasses may return others
      def completion_states = %i[succeeded failed]

      # Removes an errback.
      def cancel_errback(*callable, &block) = @callbacks[:failed].delete(EventMachine.Callback(*callable, &block))

      # Removes a callback.
      def cancel_callback(*callable, &block) = @callbacks[:succeeded].delete(EventMachine.Callback(*callable, &block))

      private

      def call_back(state)
        call_deferred(@callbacks[state])
        return unless completed?

        call_deferred(@callbacks[:completed])
        [:completed, *completion_states].each { |name| @callbacks.delete(name) }
      end
    end
  end
end
