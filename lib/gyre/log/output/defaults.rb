# frozen_string_literal: true

# Default answers of an output without books: written lines are gone and count as stored. Included
# by each class of Output, which has @name, @format and @retries. Writes nothing.

require "gyre/errors"

module Gyre
  module Log
    module Output
      # What an output has of a client is not known yet.
      class Unavailable < Gyre::Error; end

      # See Output for their meaning.
      module Defaults
        # Called first, in the writing task.
        def prepare; end

        # Written is durable.
        def sync; end

        # 0: no client is known.
        def stored_by(_client_id) = 0

        def format = @format

        def sink_options = { format: format }

        def trouble = @retries.trouble

        def status = { trouble: trouble, spilled: 0 }

        # Prepares the server's end: stored batches need not be written any more.
        def rest(_timeout_s); end

        # Undoes {#rest}.
        def resume; end

        def to_s = @name
      end
    end
  end
end
