# frozen_string_literal: true

# Stands for a file that could not be opened at the start because its disk is full or fails. Opens
# it as soon as possible; until then nothing is written, and stored records of acknowledged clients
# are unknown. Made by Output.open.

require "gyre/log/output/defaults"
require "gyre/log/output/reconnecting_socket"
require "gyre/log/output/retry"

module Gyre
  module Log
    module Output
      class UnopenedFile
        include Defaults

        # Errors that may pass; others are mistakes in the settings.
        ERRORS = [Errno::ENOSPC, Errno::EDQUOT, Errno::EFBIG, Errno::EIO, Errno::EROFS, Errno::ESTALE, Errno::ETIMEDOUT].freeze

        # `error` is the first attempt's.
        def initialize(name, error, format: :text, report: nil, longest_pause_s: Retry::LONGEST_PAUSE_S, &open)
          @name = name
          @format = format
          @open = open
          @retries = Retry.new(name, report: report, longest_pause_s: longest_pause_s)
          @retries.failed("open it", error)
          @file = nil
        end

        def prepare
          @file ||= @retries.until_success("open it", SystemCallError, ArgumentError) { @open.call }
        end

        def write(data, clients = nil) = prepare.write(data, clients)

        def sync = @file&.sync

        def reopen = @file&.reopen

        def reopen_soon = @file&.reopen_soon

        def close = @file&.close

        # Raises Unavailable until it is open.
        def stored_by(client_id)
          raise Unavailable, "#{self}: #{trouble}" unless @file

          @file.stored_by(client_id)
        end

        def trouble = @file ? @file.trouble : @retries.trouble
      end
    end
  end
end
