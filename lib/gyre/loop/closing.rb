# frozen_string_literal: true

# IO#close and IO#reopen while the portable engine sleeps in IO.select, on Rubies whose schedulers
# are not informed (before 4.0): select(2) does not notice that another thread closes what it waits
# for. So the first Loop::Portable puts a step around both methods, which wakes the loops that watch
# the IO's number; they find out by themselves. CRuby only. Its twin is ext/gyre/loop/loop_close.c.

module Gyre
  class Loop
    # Which portable loops are open in this Ractor, whose IOs no other one can close.
    module Closing
      # Prepended to IO.
      module Step
        def close
          Closing.around(self) { super }
        end

        def reopen(*)
          Closing.around(self) { super }
        end
      end

      KEY = :gyre_portable_loops
      NEEDED = RUBY_ENGINE == "ruby" && RUBY_VERSION < "4" && defined?(Ractor)
      private_constant :KEY, :NEEDED

      class << self
        # @param loop [Loop::Portable]
        def enlist(loop)
          return unless NEEDED

          IO.prepend(Step)
          Ractor.current[KEY] = [*Ractor.current[KEY], [loop, Process.pid]]
        end

        def delist(loop)
          Ractor.current[KEY] = Ractor.current[KEY].reject { |other, _| other.equal?(loop) } if NEEDED && Ractor.current[KEY]
        end

        # Runs the block, then wakes the loops that watch the IO. A forked child leaves its parent's
        # alone.
        def around(io)
          loops = Ractor.current[KEY]
          return yield if loops.nil? || loops.empty? || io.closed?

          fd = io.fileno
          begin
            yield
          ensure
            loops.each { |loop, pid| loop.descriptor_closed(fd) if pid == Process.pid }
          end
        end
      end
    end
  end
end
