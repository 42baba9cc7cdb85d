# frozen_string_literal: true

# In fibers of a Gyre::Scheduler, opens a path in a thread if the open may wait for another program
# (a FIFO, a serial line). Opens other paths directly. Checks the path first, as Ruby before 3.4 has
# no hook, and later hooks get no path. A cancelled wait ends the thread, which might otherwise
# still open the path.

require_relative "../loop/select"
require_relative "../offload"
require "fcntl"

module Gyre
  class Scheduler
    module WaitingPath
      # Prepended to File, and so for File.open.
      module New
        def initialize(path, *arguments, **options) = WaitingPath.waits?(path) ? Offload.call(abandon: :seen) { super } : super
      end

      module Reopen
        def reopen(path, *arguments, **options) = WaitingPath.waits?(path) ? Offload.call(abandon: :seen) { super } : super
      end

      # Prepended to IO's singleton class. Defined from a text, as Ractors call no methods made of
      # blocks.
      module Names
        %i[sysopen read binread readlines write binwrite].each do |name|
          class_eval <<~RUBY, __FILE__, __LINE__ + 1
            def #{name}(path, *arguments, **options)                                         # def read(path, *arguments, **options)
              WaitingPath.waits?(path) ? Offload.call(abandon: :seen) { super } : super      #   WaitingPath.waits?(path) ? …
            end                                                                              # end
          RUBY
        end

        def foreach(path, *arguments, **options, &block)
          return super unless block && WaitingPath.waits?(path)

          chomp = options.key?(:chomp) ? { chomp: options.delete(:chomp) } : {}
          File.open(path, **options) { |file| file.each_line(*arguments, **chomp, &block) }
          nil
        end
      end

      # Included into Object: Ruby finds it before Kernel's own method, which gems alias.
      module Open
        private

        def open(path, ...) = WaitingPath.waits?(path) ? File.open(path, ...) : super
      end

      # True if opening the path may wait and the fiber has a Gyre::Scheduler.
      def self.waits?(path)
        return false unless Fiber.current_scheduler.is_a?(Scheduler)

        path = path.to_path if !path.is_a?(String) && path.respond_to?(:to_path) && !path.is_a?(IO)
        path.is_a?(String) && may_wait?(path)
      end

      def self.may_wait?(path)
        return Scheduler.path_waits?(path) if Scheduler.respond_to?(:path_waits?) # in C

        Loop::Select.blocking { File.pipe?(path) || File.chardev?(path) }
      end

      File.prepend(New)
      IO.prepend(Reopen)
      IO.singleton_class.prepend(Names)
      Object.include(Open)
    end

    # IO#pwrite in a scheduler's fiber: writes in a blocking fiber. Otherwise Ruby 3.3 and 3.4 look
    # for the hook io_pwrite and make an object for it without the GVL. A garbage collection by
    # another thread at that moment crashes the process.
    module PositionedWrite
      def pwrite(*) = Fiber.current.blocking? ? super : Fiber.blocking { super }
    end

    IO.prepend(PositionedWrite) if RUBY_VERSION >= "3.3" && RUBY_VERSION < "3.5"

    # File#flock in a fiber of a Gyre::Scheduler. Ruby has no hook for it, and waiting for another
    # fiber's lock would stop the thread. Tries first, then waits in a thread. An abandoned wait (a
    # timeout, a stop) never takes the lock later.
    module FileLock
      def flock(operation)
        waits = operation.is_a?(Integer) && (operation & (File::LOCK_NB | File::LOCK_UN)).zero?
        return super unless waits && Fiber.current_scheduler.is_a?(Scheduler)

        super(operation | File::LOCK_NB) || lock_in_thread(operation)
      end

      private

      # If the wait is cancelled, releases a lock that the thread has just taken. No earlier lock is
      # lost, as flock(2) has dropped it before waiting.
      def lock_in_thread(operation)
        locked = false
        result = Offload.call(abandon: :seen) { flock(operation) }
        locked = true
        result
      ensure
        flock(File::LOCK_UN) unless locked || closed?
      end
    end

    File.prepend(FileLock)

    # IO#fcntl with F_SETLKW in a fiber of a Gyre::Scheduler: locks a part of a file, for which Ruby
    # has no hook. Tries repeatedly, with pauses, as an abandoned wait in a thread might still take
    # the lock. Does not notice a deadlock of two processes.
    module RecordLock
      # Commands that wait => commands that do the same without waiting. 38 and 37 are Linux's
      # F_OFD_SETLKW and F_OFD_SETLK.
      AT_ONCE = { Fcntl::F_SETLKW => Fcntl::F_SETLK }.merge(RUBY_PLATFORM.include?("linux") ? { 38 => 37 } : {}).freeze
      PAUSE_S = 0.001
      PAUSE_S_LIMIT = 0.05

      def fcntl(command, *arguments)
        at_once = AT_ONCE[command]
        return super unless at_once && Fiber.current_scheduler.is_a?(Scheduler)

        pause_s = PAUSE_S
        begin
          super(at_once, *arguments)
        rescue Errno::EAGAIN, Errno::EACCES
          sleep pause_s
          pause_s = [pause_s * 2, PAUSE_S_LIMIT].min
          retry
        end
      end
    end

    IO.prepend(RecordLock)

    # IO.copy_stream in a fiber of a Gyre::Scheduler. From Ruby 3.4 on it copies between IOs in C,
    # as blocking work that cannot be stopped. Therefore Ruby gets an object with only `write` or
    # `readpartial` in place of the IO that may wait, and calls this method, which waits in the
    # scheduler. Copies regular files in a thread.
    module CopyStream
      Sink = Struct.new(:io) { def write(bytes) = io.write(bytes) }

      Source = Struct.new(:io) { def readpartial(...) = io.readpartial(...) }

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
