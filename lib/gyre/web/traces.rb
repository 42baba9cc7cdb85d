# frozen_string_literal: true

# Cuts off the part of a trace that is the same for every program: the lines below Gyre's file that
# called the program's code. For messages about a rackup file or a hook. Prints nothing.

module Gyre
  module Web
    module Traces
      module_function

      # The traces of the error and its causes become the program's own; `below` is the caller's
      # file, `without` drops more lines.
      def cut(error, below, without = nil)
        cause = error
        while cause
          own = own(cause, below, without)
          cause.set_backtrace(own) unless own.empty?
          cause = cause.cause
        end
        error
      end

      # Empty: the program is not in it.
      def own(error, below, without = nil)
        lines = error.backtrace.to_a.take_while { |line| !line.start_with?(below) }
        without ? lines.grep_v(without) : lines
      end
    end
  end
end
