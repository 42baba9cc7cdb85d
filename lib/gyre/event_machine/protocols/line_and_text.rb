# frozen_string_literal: true

# LineAndTextProtocol: LineText2 with a limit on lines.
require "gyre/event_machine/protocols/line_text2"

module Gyre
  module EventMachine
    module Protocols
      # Lines of at most 16 KiB, and text.
      class LineAndTextProtocol < Connection
        include LineText2

        # Bytes of a line.
        MaxLineLength = 16 * 1024

        # @param data [String]
        def receive_data(data)
          return if @lbp_failed

          super
          overlong if !@lt2_text && @lt2_rest && @lt2_rest.bytesize > MaxLineLength
        end

        # @param message [String]
        def receive_error(message); end

        private

        def lt2_line(line)
          return if @lbp_failed

          line.bytesize > MaxLineLength ? overlong : super
        end

        def overlong
          return if @lbp_failed

          @lbp_failed = true
          receive_error("overlength line")
          close_connection
        end
      end
    end
  end
end
