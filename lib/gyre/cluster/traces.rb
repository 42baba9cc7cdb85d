# frozen_string_literal: true

# Cuts Gyre's own lines off backtraces, for messages about a rackup file or hook.

module Gyre
  module Cluster
    module Traces
      module_function

      # Shortens the backtraces of an error and its causes. `below`: Gyre's file that called the
      # program's code; `without`: a pattern of further lines to drop.
      def cut(error, below, without = nil)
        cause = error
        while cause
          own = own(cause, below, without)
          cause.set_backtrace(own) unless own.empty?
          cause = cause.cause
        end
        error
      end

      # Returns the backtrace's lines before the first line that is in the file `below`.
      def own(error, below, without = nil)
        lines = error.backtrace.to_a.take_while { |line| !line.start_with?(below) }
        without ? lines.grep_v(without) : lines
      end
    end
  end
end
