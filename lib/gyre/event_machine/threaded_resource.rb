# frozen_string_literal: true

# EventMachine's ThreadedResource: an object with its own thread for blocking calls, for a Pool.
require "gyre/event_machine/completion"

module Gyre
  module EventMachine
    # An object that only one thread uses.
    class ThreadedResource
      # @yieldreturn [Object] the resource
      def initialize
        @resource = yield
        @jobs = ::Queue.new
        @thread = Thread.new do
          while (job = @jobs.pop)
            job.call
          end
        end
      end

      # @yieldparam resource [Object] in the resource's thread
      # @return [Completion] succeeds with the block's value, fails with its exception
      def dispatch
        completion = Completion.new
        @jobs << lambda do
          value = yield @resource
          EventMachine.schedule { completion.succeed(value) }
        rescue StandardError => error
          EventMachine.schedule { completion.fail(error) }
        end
        completion
      end

      # Ends the thread after pending calls.
      # @return [Thread]
      def shutdown
        @jobs << nil
        @thread.join
      end
    end
  end
end
