# frozen_string_literal: true

# Builds and parses Analogger's frames, for servers and clients. Each client's connection begins
# with such a frame; the ingest reads later frames. Uses no socket and no clock.
#
#   LLLL LLLL ":" service ":" severity ":" message
#
# LLLL is the length of the whole frame in four decimal digits; it is written twice.

module Gyre
  module Log
    # Frames of Analogger's protocol. Returned Strings are BINARY.
    module Wire
      HEADER_BYTES = 8
      # Bytes of the shortest frame: its header and three colons.
      FRAME_BYTES_LEAST = HEADER_BYTES + 3
      FRAME_BYTES_LIMIT = 8192

      # Faults of frames. The server replies "error: " and the fault.
      CHECKSUM_FAILED = "checksum failed"
      TOO_LONG = "max length exceeded"
      MALFORMED = "malformed frame"
      CUT_OFF = "frame cut off"

      HEADER = /\A(\d{4})\1\z/n

      class << self
        # Raises ArgumentError if no frame can hold the arguments.
        def frame(service, severity, message)
          service, severity, message = [service, severity, message].map { |part| part.to_s.b }
          { "service" => service, "severity" => severity }.each do |name, part|
            raise ArgumentError, "the #{name} #{part.inspect} has a colon, which a frame cannot carry" if part.include?(":")
          end
          bytes = FRAME_BYTES_LEAST + service.bytesize + severity.bytesize + message.bytesize
          return format("%<n>04d%<n>04d:", n: bytes).b << service << ":" << severity << ":" << message if bytes < FRAME_BYTES_LIMIT

          raise ArgumentError, "a frame has less than #{FRAME_BYTES_LIMIT} bytes, and this one would have #{bytes}"
        end

        # Returns a frame's length, or its fault. Checks the length, because a server must not wait
        # for the bytes of a wrong length.
        def length(header, limit: FRAME_BYTES_LIMIT)
          bytes = HEADER.match?(header) ? header.byteslice(0, 4).to_i : 0
          return CHECKSUM_FAILED if bytes < FRAME_BYTES_LEAST

          bytes < limit ? bytes : TOO_LONG
        end

        # Returns a frame's service, severity and message; nil if it has fewer than three colons.
        def parts(frame)
          return unless frame.getbyte(HEADER_BYTES) == 58

          parts = frame.byteslice(HEADER_BYTES + 1, frame.bytesize).split(":", 3)
          parts if parts.size == 3
        end

        # Parses a connection's first frame. Returns nil if the frame is incomplete, a fault as a
        # String, or a Hash of service:, severity:, key: and rest:, the bytes after the frame.
        def authentication(bytes)
          return if bytes.bytesize < HEADER_BYTES

          bytes = bytes.b
          length = length(bytes.byteslice(0, HEADER_BYTES))
          return length if length.is_a?(String)
          return if bytes.bytesize < length

          service, severity, key = parts(bytes.byteslice(0, length))
          key ? { service: service, severity: severity, key: key, rest: bytes.byteslice(length, bytes.bytesize) } : MALFORMED
        end
      end
    end
  end
end
