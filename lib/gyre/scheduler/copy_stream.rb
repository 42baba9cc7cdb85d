# frozen_string_literal: true

# IO.copy_stream in a fiber of a Gyre::Scheduler. From Ruby 3.4 on it copies between IOs in C, as
# blocking work that no thread could stop. Wraps the end that may wait in an object with one method,
# so that Ruby reads and writes like a program. Copies regular files in a thread.

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

      # True for an IO other than a regular file.
      def self.waits?(one) = one.is_a?(IO) && !Loop::Select.blocking { one.stat.file? }
    end

    IO.singleton_class.prepend(CopyStream)
  end
end
