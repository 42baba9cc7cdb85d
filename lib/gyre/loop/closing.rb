# frozen_string_literal: true

# Wraps IO#close, its halves and IO#reopen for the portable engine: wakes the loops that watch the
# descriptor, as IO.select does not notice a close by another thread. From Ruby 4.0 on the caller
# sleeps until other fibers and threads have left the IO. The wrapper tells the caller's scheduler
# that an unblock for the IO ends this sleep. CRuby only; twin of ext/gyre/loop/loop_close.c.

module Gyre
  class Loop
    # Keeps a list of loops for each Ractor, as a Ractor cannot close another's IOs.
    module Closing
      # Prepended to IO.
      module Step
        def close = Closing.around(self) { super }

        def reopen(*) = Closing.around(self) { super }
      end

      # Prepended to IO and BasicSocket: closes the descriptor if the other half is closed.
      module HalfStep
        def close_read = Closing.around(self, half: true) { super }

        def close_write = Closing.around(self, half: true) { super }
      end

      KEY = :gyre_portable_loops
      NEEDED = RUBY_ENGINE == "ruby" && defined?(Ractor)
      private_constant :KEY, :NEEDED

      class << self
        def enlist(loop)
          return unless NEEDED

          IO.prepend(Step, HalfStep)
          BasicSocket.prepend(HalfStep) if defined?(BasicSocket)
          Ractor.current[KEY] = [*Ractor.current[KEY], [loop, Process.pid]]
        end

        def delist(loop)
          Ractor.current[KEY] = Ractor.current[KEY].reject { |other, _| other.equal?(loop) } if NEEDED && Ractor.current[KEY]
        end

        # Runs the block, then wakes the loops that watch the IO. In a forked child leaves the
        # parent's loops alone.
        def around(io, half: false)
          loops = Ractor.current[KEY]
          return yield if loops.nil? || loops.empty? || io.closed?

          fd = io.fileno
          begin
            expecting_signals(io) { yield }
          ensure
            loops.each { |loop, pid| loop.descriptor_closed(fd) if pid == Process.pid } if !half || io.closed?
          end
        end

        private

        def expecting_signals(io)
          scheduler = Fiber.current_scheduler
          return yield unless scheduler.respond_to?(:expect_signal)

          begin
            scheduler.expect_signal(io)
            yield
          ensure
            scheduler.signalled?
          end
        end
      end
    end
  end
end
