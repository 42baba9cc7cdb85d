# frozen_string_literal: true

# Gyre::Async::Selector: IO::Event::Selector's interface on Gyre's loop. ext/gyre/async/selector.c
# implements it; this file chooses the backend and waits for processes in a thread. Requires neither
# Async nor io-event.
require "gyre/loop"
require "gyre/scheduler/io_buffer"

unless Gyre::Loop.native?
  # If GYRE_BACKEND is select, Gyre::Native is not loaded and has no load_error.
  refused = ENV["GYRE_BACKEND"] == Gyre::Loop::PORTABLE
  reason = refused ? "GYRE_BACKEND=select rules it out: unset it" : "#{Gyre::Native.load_error.message}: build it with `rake compile`"
  raise LoadError, "gyre/async needs Gyre's C extension (#{reason}), or leave `require \"gyre/async\"` out, and Async runs on io-event's own selector"
end

Gyre::Loop.define_native(:async)

module Gyre
  module Async
    class Selector
      # `loop`: the fiber that calls #select. If `backend` is nil, takes GYRE_BACKEND or the best.
      def self.new(loop, backend = nil)
        Loop.on_backend(backend) do |engine, name|
          raise "gyre/async: no native backend opens here:\n#{Loop.explain}" unless engine == :native

          super(loop, name)
        end
      end

      private

      # Called where pidfds are missing, or to wait for any child or for a process group.
      def process_wait_in_thread(pid, flags)
        return Process::Status.wait(pid, flags) unless (flags & Process::WNOHANG).zero?

        thread = Thread.new { Process::Status.wait(pid, flags) }
        thread.value
      ensure
        thread&.kill
      end
    end
  end
end
