# frozen_string_literal: true

# A file of system settings, parsed again when it changes. Asks the kernel at most once a second and
# keeps the file closed.

require "gyre/clock"

module Gyre
  module DNS
    class WatchedFile
      CHECK_S = 1

      # The block parses the file's text, "" without a file.
      def initialize(path, &parse)
        @path = path
        @parse = parse
        @due_s = @state = nil
      end

      def value
        return @value if @due_s && Clock.now < @due_s

        @due_s = Clock.now + CHECK_S
        state = (File.stat(@path).then { |stat| [stat.dev, stat.ino, stat.size, stat.mtime] } rescue []) # without a file
        return @value if state == @state

        @value = @parse.call((File.binread(@path) rescue ""))
        @state = state
        @value
      end
    end
  end
end
