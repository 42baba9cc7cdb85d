# frozen_string_literal: true

# EventMachine's Deferrable. Mixed into connections, requests and programs' objects, so it needs no
# initialize.

module Gyre
  module EventMachine
    # Callbacks for the success or failure of an operation; a change of status drops the callbacks
    # of the other one.
    module Deferrable
      autoload :Pool, "gyre/event_machine/pool" # as old programs write EM::Deferrable::Pool

      # Passes on a value: to the callbacks of a Deferrable, else as the result.
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

      # Calls the block on success, at once if it has happened.
      # @return [self]
      def callback(&block) = on_deferred_status(:succeeded, :failed, @callbacks ||= [], block)

      # Calls the block on failure, at once if it has happened.
      # @return [self]
      def errback(&block) = on_deferred_status(:failed, :succeeded, @errbacks ||= [], block)

      # @param block [Proc] a callback not called yet
      def cancel_callback(block) = @callbacks&.delete(block)

      # @param block [Proc] an errback not called yet
      def cancel_errback(block) = @errbacks&.delete(block)

      # Calls the callbacks of the new status. If one changes the status again, the remaining ones
      # get its arguments.
      # @param status [Symbol] `:unknown`, `:succeeded`, `:failed`
      # @param args [Array] for the callbacks
      def set_deferred_status(status, *args)
        cancel_timeout
        @deferred_status = status
        @deferred_args = args
        case status
        when :succeeded then call_deferred(@callbacks, @errbacks)
        when :failed then call_deferred(@errbacks, @callbacks)
        end
      end

      # @param args [Array] for the callbacks
      def succeed(*args) = set_deferred_status(:succeeded, *args)
      alias set_deferred_success succeed

      # @param args [Array] for the errbacks
      def fail(*args) = set_deferred_status(:failed, *args)
      alias set_deferred_failure fail

      # Fails after that time, unless the status changes earlier.
      # @param seconds [Numeric]
      # @param args [Array] for the errbacks
      # @return [self]
      def timeout(seconds, *args)
        cancel_timeout
        @deferred_timeout = Timer.new(seconds) { self.fail(*args) }
        self
      end

      # Ignored without a timeout.
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

      def call_deferred(due, dropped)
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
  end
end
