# frozen_string_literal: true

# Reports the signals that ask a server for a step that it does not have. Without a handler they
# would end or suspend the process.

require "gyre/lifetime"

module Gyre
  module CLI
    module AbsentSteps
      NAMES = { "USR1" => "a rolling restart", "USR2" => "a hot restart", "TTIN" => "a worker more", "TTOU" => "a worker fewer" }.freeze

      # Yields a line for each such signal until the current task ends. `kind`: the Lifetime's
      # class.
      def self.report(kind, why = "is not possible here")
        absent = NAMES.reject { |name, _| kind.private_method_defined?(:"on_#{Lifetime::SIGNALS[name]}") }
        Task.current.async("signals", transient: true) do
          Gyre.signals(*absent.keys).each { |name| yield "#{name}: #{absent[name]} #{why}" }
        end
      end
    end
  end
end
