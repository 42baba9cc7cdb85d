# frozen_string_literal: true

# Cuts a trace below Gyre's file that called the program's code, as that part is the same for every
# program. Used for messages about a rackup file or a hook. Prints nothing.

module Gyre
  module Web
    module Traces
      module_function

      # Shortens the traces of the error and its causes; `below` is the calling file, `without`
      # drops further lines.
      def cut(error, below, without = nil)
        cause = error
        while cause
          own = own(cause, below, without)
          cause.set_backtrace(own) unless own.empty?
          cause = cause.cause
        end
        error
      end

      # Returns an empty trace if the program is not in it.
      def own(error, below, without = nil)
        lines = error.backtrace.to_a.take_while { |line| !line.start_with?(below) }
        without ? lines.grep_v(without) : lines
      end
    end
  end
end
