# frozen_string_literal: true

# Methods of outputs without a journal: written lines count as stored. Needs @name, @format,
# @retries.

require "gyre/errors"

module Gyre
  module Log
    module Output
      # The clients' sequence numbers are not known yet.
      class Unavailable < Gyre::Error; end

      # Output describes these methods.
      module Defaults
        def prepare; end

        def sync; end

        def stored_by(_client_id) = 0

        def format = @format

        def sink_options = { format: format }

        def trouble = @retries.trouble

        def status = { trouble: trouble, spilled: 0 }

        # Called before the server ends: stored batches may stay unwritten.
        def rest(_timeout_s); end

        def resume; end

        def to_s = @name
      end
    end
  end
end
