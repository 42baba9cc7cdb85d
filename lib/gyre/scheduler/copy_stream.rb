# frozen_string_literal: true

# IO.copy_stream in a fiber of a Gyre::Scheduler. From Ruby 3.4 on it copies from one IO to another
# in C that asks no scheduler, and hands that to the scheduler as work that blocks; in a thread it
# could not be stopped, for it uses memory of the caller. With one end that is no IO it reads and
# writes as a program does, so here the end that may wait is handed over as an object that has
# nothing but the one method. Regular files wait for the disk only: they are copied in a thread.

require_relative "../loop/select"

module Gyre
  class Scheduler
    # Prepended to IO's singleton class.
    module CopyStream
      # The end that is written to.
      Sink = Struct.new(:io) do
        def write(bytes) = io.write(bytes)
      end

      # The end that is read from.
      Source = Struct.new(:io) do
        def readpartial(...) = io.readpartial(...)
      end
      private_constant :Sink, :Source

      def copy_stream(source, destination, *range)
        return super unless Fiber.current_scheduler.is_a?(Scheduler)

        if CopyStream.waits?(destination)
          destination.binmode # as Ruby itself does
          super(source, Sink.new(destination), *range).tap { destination.flush }
        elsif CopyStream.waits?(source)
          super(Source.new(source), destination, *range)
        else
          super
        end
      end

      # @return [Boolean] whether it is an IO of anything but a regular file
      def self.waits?(one)
        one.is_a?(IO) && !Loop::Select.blocking { one.stat.file? }
      end
    end

    IO.singleton_class.prepend(CopyStream)
  end
end
