# frozen_string_literal: true

# What every output answers by default: it keeps no books, so what it has written is gone and counts
# as stored. Included by each class of Output, which has @name, @format and @retries. It writes
# nothing.

module Gyre
  module Log
    module Output
      # See Output for what each of them is for.
      module Defaults
        # Called first, in the task that writes.
        def prepare; end

        # Written is durable.
        def sync; end

        # @return [Integer] 0: no client is known
        def stored_by(_client_id) = 0

        # @return [Boolean] clients never come here from other servers
        def shared? = false

        # @return [Symbol] :text or :json
        def format = @format

        # @return [Hash] options of its sink, for Ingest#sink
        def sink_options = { format: format }

        # @return [String, nil]
        def trouble = @retries.trouble

        # @return [Hash{Symbol => Object}] its part of the server's status
        def status = { trouble: trouble, spilled: 0 }

        # The server is about to end: batches that have counted as stored already need not be
        # written now.
        def rest(_timeout_s); end

        # The server goes on.
        def resume; end

        # @return [String]
        def to_s = @name
      end
    end
  end
end
