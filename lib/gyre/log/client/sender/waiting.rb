# frozen_string_literal: true

# How other threads and fibers wait for a log client's sender: for room, for what it has sent, for a connection. Part of
# Gyre::Log::Sender. Each wait has an end, or its policy says that it has none.

module Gyre
  module Log
    class Sender
      # See the head of this file.
      module Waiting
        # How long at most until a waiter looks by itself, should it not be told.
        LOOK_S = 1.0
        private_constant :LOOK_S

        # @return [Error, nil] why the server refuses this client
        attr_reader :refusal

        # Waits until the block is true.
        # @param timeout_s [Numeric, nil]
        # @yieldreturn [Object] false or nil: not yet. It may raise
        # @return what the block returned; false after the time
        # @raise [ThreadError] in a signal handler, and in the sender's own thread, where reports may be logged
        def wait(timeout_s = nil)
          raise ThreadError, "the thread of a log client cannot wait for itself" if Thread.current.equal?(@thread)

          deadline = timeout_s && Uplink.now + timeout_s
          @mutex.synchronize do
            @waiting += 1
            wake
            until (result = yield)
              left = deadline ? deadline - Uplink.now : LOOK_S
              return false if left <= 0

              rest([left, LOOK_S].min)
            end
            result
          ensure
            @waiting -= 1
          end
        end

        # @return [Boolean] whether records wait in memory for which there is no room, neither at the server nor on the disk
        def full?
          @full
        end

        # @return [Boolean] whether everything up to this number is acknowledged (with the old wire: written)
        def acknowledged?(number)
          @backlog.acknowledged >= number
        end

        private

        # Ruby 3.1 comes back without the mutex when an exception ends the wait of a fiber.
        def rest(seconds)
          @changed.wait(@mutex, seconds)
        ensure
          @mutex.lock unless @mutex.owned?
        end

        def set_up_waiting
          @mutex = Mutex.new
          @changed = ConditionVariable.new
          @waiting = 0
          @full = @drop = false
        end

        def waited_for?
          @waiting.positive?
        end

        # Tells the waiters to look again. One that begins to wait just now looks after this.
        def tell
          @mutex.synchronize { @changed.broadcast } if waited_for?
        end
      end
    end
  end
end
