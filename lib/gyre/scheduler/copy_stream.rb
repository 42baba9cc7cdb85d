# frozen_string_literal: true

# IO.copy_stream in a fiber of a Gyre::Scheduler. From Ruby 3.4 on IO.copy_stream copies between IOs
# in C without asking the scheduler, as blocking work; a thread could not be stopped, as it uses the
# caller's memory. Wraps the end that may wait in an object with a single method: if one end is not
# an IO, Ruby reads and writes like a program. Copies regular files in a thread, as they wait for
# the disk only.

require_relative "../loop/select"

module Gyre
  class Scheduler
    module CopyStream
      Sink = Struct.new(:io) do
        def write(bytes) = io.write(bytes)
      end

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

      # True for an IO that is not a regular file.
      def self.waits?(one) = one.is_a?(IO) && !Loop::Select.blocking { one.stat.file? }
    end

    IO.singleton_class.prepend(CopyStream)
  end
end
