# frozen_string_literal: true

# Cuts the part of a trace that is the same for every program: what stands below the file of Gyre's
# that called the program's code. For messages about a rackup file or a hook. It prints nothing.

module Gyre
  module Web
    # Changes exceptions.
    module Traces
      module_function

      # @param error [Exception] its trace and those of its causes become the program's own
      # @param below [String] the path of the file that called the program
      # @param without [Regexp, nil] other lines that are left out
      # @return [Exception] the same
      def cut(error, below, without = nil)
        cause = error
        while cause
          own = own(cause, below, without)
          cause.set_backtrace(own) unless own.empty?
          cause = cause.cause
        end
        error
      end

      # @return [Array<String>] what {.cut} leaves; empty: the program is not in it
      def own(error, below, without = nil)
        lines = error.backtrace.to_a.take_while { |line| !line.start_with?(below) }
        without ? lines.grep_v(without) : lines
      end
    end
  end
end
