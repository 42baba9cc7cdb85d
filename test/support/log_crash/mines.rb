# frozen_string_literal: true

# Kills the process that it is laid in at a system call on a file: before it, after it, or in a
# write's midst. Laid by the crash test in servers and writers, after the fork. A kill from outside
# rarely hits the moments between two such calls; this always does.

module GyreTest
  module LogCrash
    # kill -9 at the n-th call that changes a file.
    module Mines
      # For files, not for sockets, pipes and the standard streams.
      module Descriptor
        def write_nonblock(bytes, *rest, **options)
          return super unless is_a?(File)

          Mines.step(bytes.bytesize, ->(part) { super(bytes.byteslice(0, part), *rest, **options) }) { super }
        end

        def pwrite(bytes, offset)
          Mines.step(bytes.bytesize, ->(part) { super(bytes.byteslice(0, part), offset) }) { super }
        end

        def fsync
          is_a?(File) ? Mines.step { super } : super
        end
      end

      # What a File alone has.
      module OpenFile
        def truncate(*)
          Mines.step { super }
        end

        def flock(*)
          Mines.step { super }
        end
      end

      # File.rename and the like.
      module Names
        %i[rename unlink delete truncate mkdir rmdir].each do |name|
          define_method(name) { |*arguments, **options| Mines.step { super(*arguments, **options) } }
        end
      end

      class << self
        def lay(calls, random)
          @left = calls
          @random = random
          IO.prepend(Descriptor)
          File.prepend(OpenFile)
          [File, Dir].each { |owner| owner.singleton_class.prepend(Names) }
        end

        def step(bytes = nil, write_part = nil)
          return yield if @left.nil? || (@left -= 1).positive?

          draw = @random.rand(3)
          if draw.zero? && write_part && bytes > 1 then write_part.call(@random.rand(1...bytes))
          elsif draw == 1 then yield
          end
          Process.kill(:KILL, Process.pid)
          sleep
        end
      end
    end
  end
end
