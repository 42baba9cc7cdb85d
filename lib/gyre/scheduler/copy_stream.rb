# frozen_string_literal: true

# IO.copy_stream in a fiber of a Gyre::Scheduler. From Ruby 3.4 on it copies from IO to IO in C that
# asks no scheduler, as blocking work; a thread could not be stopped, as it uses the caller's
# memory. If one end is not an IO, Ruby reads and writes like a program: the end that may wait is
# therefore wrapped in an object with a single method. Regular files wait for the disk only and are
# copied in a thread.

require_relative "../loop/select"

module Gyre
  class Scheduler
    module CopyStream
      # The destination.
      Sink = Struct.new(:io) do
        def write(bytes) = io.write(bytes)
      end

      # The source.
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
