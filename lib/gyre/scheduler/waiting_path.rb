# frozen_string_literal: true

# Opens paths that wait for another program in a thread, in a fiber of a Gyre::Scheduler: a FIFO, a
# serial line. Checks the path first: Ruby before 3.4 has no hook, and later hooks get no path. A
# cancelled wait ends the thread, which might still meet the other end. Other paths are opened at
# once.

require_relative "../loop/select"
require_relative "../offload"

module Gyre
  class Scheduler
    module WaitingPath
      # Prepended to File, and so for File.open.
      module New
        def initialize(path, *arguments, **options)
          WaitingPath.waits?(path) ? Offload.call(abandon: :seen) { super } : super
        end
      end

      # Prepended to IO.
      module Reopen
        def reopen(path, *arguments, **options)
          WaitingPath.waits?(path) ? Offload.call(abandon: :seen) { super } : super
        end
      end

      # Prepended to IO's singleton class. Written out, as Ractors call no methods defined by
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

      # In Object, before Kernel, whose own methods gems alias.
      module Open
        private

        def open(path, ...) = WaitingPath.waits?(path) ? File.open(path, ...) : super
      end

      # True if the fiber's scheduler handles it.
      def self.waits?(path)
        return false unless Fiber.current_scheduler.is_a?(Scheduler)

        path = path.to_path if !path.is_a?(String) && path.respond_to?(:to_path) && !path.is_a?(IO)
        path.is_a?(String) && may_wait?(path)
      end

      def self.may_wait?(path)
        return Scheduler.path_waits?(path) if Scheduler.respond_to?(:path_waits?) # in C

        Loop::Select.blocking { File.pipe?(path) || File.chardev?(path) }
      end
      private_class_method :may_wait?

      File.prepend(New)
      IO.prepend(Reopen)
      IO.singleton_class.prepend(Names)
      Object.include(Open)
    end
  end
end
