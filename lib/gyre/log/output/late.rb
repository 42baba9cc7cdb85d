# frozen_string_literal: true

# An output to a file that could not be opened at the start: its disk is full, or fails. It stands
# in the file's place and opens it as soon as that can be done; until then nothing is written, and
# it is unknown what acknowledged clients have stored there. Made by Output.open.

require "gyre/log/output/defaults"
require "gyre/log/output/reconnecting_socket"
require "gyre/log/output/retry"

module Gyre
  module Log
    module Output
      # The same methods as the file has.
      class Late
        include Defaults

        # What may be over by itself. All else is a mistake in the settings.
        ERRORS = [Errno::ENOSPC, Errno::EDQUOT, Errno::EFBIG, Errno::EIO, Errno::EROFS, Errno::ESTALE, Errno::ETIMEDOUT].freeze

        # @param name [String]
        # @param error [SystemCallError] that came when it was opened
        # @param format [Symbol]
        # @param report [#call, nil]
        # @yieldreturn [File]
        # @yieldraise [SystemCallError, ArgumentError]
        def initialize(name, error, format: :text, report: nil, longest_pause_s: Retry::LONGEST_PAUSE_S, &open)
          @name = name
          @format = format
          @open = open
          @retries = Retry.new(name, report: report, longest_pause_s: longest_pause_s)
          @retries.failed("open it", error)
          @file = nil
        end

        # Opens it.
        def prepare
          @file ||= @retries.until_success("open it", SystemCallError, ArgumentError) { @open.call }
        end

        def write(data, clients = nil) = prepare.write(data, clients)

        def sync = @file&.sync

        def reopen = @file&.reopen

        def reopen_soon = @file&.reopen_soon

        def close = @file&.close

        # @param client_id [String]
        # @return [Integer]
        # @raise [Unavailable] until it is open
        def stored_by(client_id)
          raise Unavailable, "#{self}: #{trouble}" unless @file

          @file.stored_by(client_id)
        end

        # @return [String, nil]
        def trouble = @file ? @file.trouble : @retries.trouble
      end
    end
  end
end
