# frozen_string_literal: true

# EventMachine's Completion: callbacks for any states.
require "gyre/event_machine/callback"

module Gyre
  module EventMachine
    # Callbacks for the states of an operation.
    class Completion
      # @return [Symbol] `:unknown` at first
      attr_reader :state
      # @return [Array] the arguments of the last change
      attr_reader :value

      def initialize
        @state = :unknown
        @value = []
        @callbacks = Hash.new { |callbacks, state| callbacks[state] = [] }
        @timeout = nil
      end

      # @param args [Array] for the callbacks
      def succeed(*args) = change_state(:succeeded, *args)
      alias set_deferred_success succeed

      # @param args [Array] for the errbacks
      def fail(*args) = change_state(:failed, *args)
      alias set_deferred_failure fail

      # Calls back when the state is entered, or at once if it has been. Completion drops callbacks
      # of all other completing states.
      # @param state [Symbol] a state; `:completed` is each of {#completion_states}
      def stateback(state, *callable, &block)
        callback = EventMachine.Callback(*callable, &block)
        if state == @state || (state == :completed && completed?)
          callback.call(*@value)
        elsif !completed? || !completion_states.include?(state)
          @callbacks[state] << callback
        end
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
        @state = state
        @value = args
        cancel_timeout if completed?
        call_back(state)
        call_back(:completed) if completed?
        [:completed, *completion_states].each { |name| @callbacks.delete(name) } if completed?
      end
      alias set_deferred_status change_state

      # @return [Boolean]
      def completed? = completion_states.include?(@state)

      # @return [Array<Symbol>] the states that complete it; subclasses have others
      def completion_states = %i[succeeded failed]

      # Fails after that time, unless completed earlier.
      # @param seconds [Numeric]
      # @param args [Array] for the errbacks
      def timeout(seconds, *args)
        cancel_timeout
        @timeout = Timer.new(seconds) { self.fail(*args) unless completed? }
      end

      # Cancels the timeout, if there is one.
      def cancel_timeout
        @timeout&.cancel
        @timeout = nil
      end

      # Removes an errback.
      def cancel_errback(*callable, &block) = @callbacks[:failed].delete(EventMachine.Callback(*callable, &block))

      # Removes a callback.
      def cancel_callback(*callable, &block) = @callbacks[:succeeded].delete(EventMachine.Callback(*callable, &block))

      private

      def call_back(state)
        waiting = @callbacks[state]
        while (callback = waiting.shift)
          callback.call(*@value)
        end
      end
    end
  end
end
