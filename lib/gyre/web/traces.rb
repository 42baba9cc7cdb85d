# frozen_string_literal: true

# Cuts traces below Gyre's calling file, for messages about a rackup file or hook.

module Gyre
  module Web
    module Traces
      module_function

      # Shortens traces of the error and its causes; `below`: the calling file; `without`: further
      # lines to drop.
      def cut(error, below, without = nil)
        cause = error
        while cause
          own = own(cause, below, without)
          cause.set_backtrace(own) unless own.empty?
          cause = cause.cause
        end
        error
      end

      # Returns the trace's lines above `below`; empty if none is the program's.
      def own(error, below, without = nil)
        lines = error.backtrace.to_a.take_while { |line| !line.start_with?(below) }
        without ? lines.grep_v(without) : lines
      end
    end
  end
end
