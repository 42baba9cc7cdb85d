# frozen_string_literal: true

# Where messages begin and end in a connection's bytes, for the portable engine's streams; ext/gyre/log_frame.c, log_record.c and
# log_syslog_frame.c say the same. A framing answers
#
#   cut(bytes, position) → nil: more is needed; String: what is wrong; or
#                          [position after it, service, severity, message, sequence, time_us]: a whole message
#   last(bytes) → the same for what was left when the connection ended; never nil
#
# and is told the same incomplete message from its beginning again until it is whole. All bytes are BINARY.

require "gyre/log/records"
require "gyre/log/wire"

module Gyre
  module Log
    # See the head of this file.
    module Framing
      # Frames of the old wire, after the first.
      class Frames
        def initialize(limit)
          @limit = limit || Wire::FRAME_BYTES_LIMIT
        end

        def cut(bytes, position)
          return if bytes.bytesize - position < Wire::HEADER_BYTES

          length = Wire.length(bytes.byteslice(position, Wire::HEADER_BYTES), limit: @limit)
          return length if length.is_a?(String)
          return if bytes.bytesize - position < length

          parts = Wire.parts(bytes.byteslice(position, length))
          parts ? [position + length, *parts] : Wire::MALFORMED
        end

        def last(_bytes)
          Wire::CUT_OFF
        end
      end

      # Records of the versioned wire.
      class Records
        def initialize(limit)
          @limit = limit || Log::Records::BYTES_LIMIT
        end

        def cut(bytes, position)
          return if bytes.bytesize - position < Log::Records::HEADER_BYTES

          length = Log::Records.length(bytes, position, @limit)
          return length if length.is_a?(String)
          return if bytes.bytesize - position < Log::Records::HEADER_BYTES + length

          fields = Log::Records.fields(bytes, position, length)
          return fields if fields.is_a?(String)

          sequence, time_us, service, severity, message = fields
          [position + Log::Records::HEADER_BYTES + length, service, severity, message, sequence, time_us]
        end

        def last(_bytes)
          Wire::CUT_OFF
        end
      end
    end
  end
end
