# frozen_string_literal: true

# The open folder of a Files::Root. Follows its path to another folder, as after a deployment that
# moves a symbolic link. Reads no file.

module Gyre
  module HTTP
    module Files
      # Checks its path once in {RECHECKED_S}.
      class Folder
        RECHECKED_S = 1.0

        attr_reader :io # as of the last look; nil: there is no such folder, or it was closed

        def initialize(path)
          @path = path
          @closed = false
          use(File.open(path))
          @until_s = 0.0
        end

        # Closes the former folder after the next is open: no other fiber uses a closed one.
        def current
          now_s = Process.clock_gettime(Process::CLOCK_MONOTONIC)
          return @io if now_s < @until_s

          @until_s = now_s + RECHECKED_S
          fresh = Offload.call { exchanged(@identity) }
          use(fresh) if fresh
          @io
        rescue Errno::ENOENT, Errno::ENOTDIR, Errno::EACCES, Errno::ELOOP
          use(nil)
        end

        def closed? = @closed

        def close
          @closed = true
          @io&.close
          @io = nil
          @until_s = Float::INFINITY
        end

        private

        # Returns nil if the folder is the same.
        def exchanged(identity)
          File.open(@path) if identity_of(File.stat(@path)) != identity
        end

        def identity_of(stat) = [stat.dev, stat.ino]

        def use(fresh)
          return fresh&.close if @closed

          former, @io = @io, fresh
          @identity = fresh && identity_of(fresh.stat)
          former&.close
          fresh
        end
      end
    end
  end
end
