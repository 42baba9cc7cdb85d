# frozen_string_literal: true

# Default methods of outputs. If an output has no journal, written lines count as stored.

require "gyre/errors"
require "gyre/net/retry"

module Gyre
  module Log
    module Output
      # The clients' sequence numbers are not known yet.
      class Unavailable < Gyre::Error; end

      # Output describes these methods.
      module Defaults
        NO_SPILL = OPTIONS_TEXT = nil

        # Methods of classes whose targets are paths.
        module Paths
          def parse(_path); end

          # Analogger's configurations may have a list, which means nothing here.
          def check(_path, options, faults)
            faults.add("options", "this kind of output has none by name") if options.is_a?(Hash)
          end
        end

        def self.included(output) = output.extend(Paths)

        def initialize(name, format: :text, **waits)
          @name = name
          @format = format
          @retries = Retry.new(name, **waits)
        end

        def prepare; end

        def sync; end

        def stored_by(_client_id) = 0

        def format = @format

        def sink_options = { format: format }

        def trouble = @retries.trouble

        def status = { trouble: trouble, spilled: 0 }

        # Called before the server ends. An output with a spill then leaves spilled lines on disk.
        def rest(_timeout_s); end

        def resume; end

        def to_s = @name
      end
    end
  end
end
