# frozen_string_literal: true

# Default methods of an output without a journal: written lines count as stored. Included by each
# class of Output; needs @name, @format and @retries. Writes nothing.

require "gyre/errors"

module Gyre
  module Log
    module Output
      # The output does not yet have the sequence numbers of its clients.
      class Unavailable < Gyre::Error; end

      # Output describes these methods.
      module Defaults
        def prepare; end

        # Does nothing, as written bytes count as durable.
        def sync; end

        # Returns 0, as clients are not recorded.
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
