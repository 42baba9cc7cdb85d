# frozen_string_literal: true

# Analogger's frames, as bytes and values: what clients send before and without the versioned
# protocol. Called by the server for a connection's first frame and by clients; the frames after the
# first are the ingest's. It has no socket and no clock.
#
#   LLLL LLLL ":" service ":" severity ":" message       LLLL: the bytes of the whole frame, four decimal digits, twice

module Gyre
  module Log
    # A frame of the old wire. All Strings that come out are BINARY.
    module Wire
      # What stands in front of the service.
      HEADER_BYTES = 8
      # The least that a frame can have: its header and three colons.
      FRAME_BYTES_LEAST = HEADER_BYTES + 3
      # A frame has fewer bytes than this.
      FRAME_BYTES_LIMIT = 8192

      # What is wrong with a frame; behind "error: " it is the protocol's reply.
      CHECKSUM_FAILED = "checksum failed"
      TOO_LONG = "max length exceeded"
      MALFORMED = "malformed frame"
      CUT_OFF = "frame cut off"

      HEADER = /\A(\d{4})\1\z/n
      private_constant :HEADER

      class << self
        # Makes a frame.
        #
        # @param service [String] without ":"
        # @param severity [String] without ":"
        # @param message [String] any bytes
        # @return [String] BINARY
        # @raise [ArgumentError] when the wire cannot carry them
        def frame(service, severity, message)
          service, severity, message = [service, severity, message].map { |part| part.to_s.b }
          { "service" => service, "severity" => severity }.each do |name, part|
            raise ArgumentError, "the #{name} #{part.inspect} has a colon, which a frame cannot carry" if part.include?(":")
          end
          bytes = FRAME_BYTES_LEAST + service.bytesize + severity.bytesize + message.bytesize
          return format("%<n>04d%<n>04d:", n: bytes).b << service << ":" << severity << ":" << message if bytes < FRAME_BYTES_LIMIT

          raise ArgumentError, "a frame has less than #{FRAME_BYTES_LIMIT} bytes, and this one would have #{bytes}"
        end

        # The frame's length, or what is wrong with its header. Checked in this order: a server must
        # not wait for bytes that a broken length announces.
        #
        # @param header [String] its first eight bytes
        # @param limit [Integer] a frame has fewer bytes
        # @return [Integer, String]
        def length(header, limit: FRAME_BYTES_LIMIT)
          bytes = HEADER.match?(header) ? header.byteslice(0, 4).to_i : 0
          return CHECKSUM_FAILED if bytes < FRAME_BYTES_LEAST

          bytes < limit ? bytes : TOO_LONG
        end

        # Takes a whole frame apart.
        #
        # @param frame [String] BINARY, as long as its header has it
        # @return [Array(String, String, String), nil] service, severity and message; nil without
        #   the three colons
        def parts(frame)
          return unless frame.getbyte(HEADER_BYTES) == 58

          parts = frame.byteslice(HEADER_BYTES + 1, frame.bytesize).split(":", 3)
          parts if parts.size == 3
        end

        # Reads a connection's first frame.
        #
        # @param bytes [String] what has come so far
        # @param limit [Integer] the frame has fewer bytes
        # @return [nil] when more is needed
        # @return [Hash{Symbol => String}] service:, severity:, key:, and rest:, the bytes that came
        #   after the frame
        # @return [String] what is wrong, as it stands behind "error: "
        def authentication(bytes, limit: FRAME_BYTES_LIMIT)
          return if bytes.bytesize < HEADER_BYTES

          bytes = bytes.b
          length = length(bytes.byteslice(0, HEADER_BYTES), limit: limit)
          return length if length.is_a?(String)
          return if bytes.bytesize < length

          service, severity, key = parts(bytes.byteslice(0, length))
          key ? { service: service, severity: severity, key: key, rest: bytes.byteslice(length, bytes.bytesize) } : MALFORMED
        end
      end
    end
  end
end
