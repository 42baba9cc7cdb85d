# frozen_string_literal: true

# The records of acknowledged logging, as bytes and values; the same on the wire and in a client's
# spool. Called by clients; the server's half is ext/gyre/log/log_record.c. It has no socket, no
# file and no clock.
#
#    0 u32 length: the bytes from offset 8 on        4 u32 CRC-32 of those bytes        (all big-endian)
#    8 u64 sequence number, from 1 on               16 u64 time of logging, µs since 1970
#   24 u8 bytes of the service                      25 u8 bytes of the severity
#   26 service, severity, message

require "gyre/errors"
require "gyre/log/wire"
require "zlib"

module Gyre
  module Log
    # A record of the versioned wire. All Strings that come out are BINARY.
    module Records
      # What stands in front of the bytes that length and CRC are about.
      HEADER_BYTES = 8
      # What the length is at least: an empty service, severity and message.
      BODY_BYTES_LEAST = 18
      # The usual limit of a length.
      BYTES_LIMIT = 1 << 20

      # What is wrong with a record; behind "error: " it is the protocol's reply.
      CHECKSUM_FAILED = "checksum failed"
      TOO_LONG = "max length exceeded"
      WRONG_SEQUENCE = "sequence number 0"
      MALFORMED = "malformed record"

      class << self
        # Makes a record.
        #
        # @param seq [Integer] 1 or more; each of a client is higher than the one before
        # @param time_us [Integer] microseconds since 1970
        # @param service [String] up to 255 bytes
        # @param severity [String] up to 255 bytes
        # @param message [String] any bytes
        # @return [String] BINARY
        # @raise [ArgumentError] when a record cannot carry them
        def encode(seq:, time_us:, service:, severity:, message:)
          service, severity, message = [service, severity, message].map { |part| part.to_s.b }
          { "service" => service, "severity" => severity }.each do |name, part|
            raise ArgumentError, "the #{name} has #{part.bytesize} bytes, and a record carries 255" if part.bytesize > 255
          end
          raise ArgumentError, "sequence numbers start with 1: #{seq}" unless seq.between?(1, 0xffff_ffff_ffff_ffff)

          body = [seq, time_us, service.bytesize, severity.bytesize].pack("Q>Q>CC") << service << severity << message
          raise ArgumentError, "a record carries less than 4 GiB, and not #{body.bytesize} bytes" if body.bytesize > 0xffff_ffff

          [body.bytesize, Zlib.crc32(body)].pack("NN") << body
        end

        # The whole records at the beginning of some bytes.
        #
        # @param bytes [String]
        # @yieldparam seq [Integer]
        # @yieldparam time_us [Integer]
        # @yieldparam service [String]
        # @yieldparam severity [String]
        # @yieldparam message [String]
        # @return [Integer] the bytes of these records; after them stands nothing, or a beginning.
        #   Without a block an Enumerator
        # @raise [ProtocolError] for a record that is broken
        def each(bytes, limit: BYTES_LIMIT)
          return enum_for(:each, bytes, limit: limit) unless block_given?

          position = 0
          while bytes.bytesize - position >= HEADER_BYTES
            length = length(bytes, position, limit)
            raise ProtocolError, "#{length} at byte #{position}" if length.is_a?(String)
            break if bytes.bytesize - position < HEADER_BYTES + length

            fields = fields(bytes, position, length)
            raise ProtocolError, "#{fields} at byte #{position}" if fields.is_a?(String)

            yield(*fields)
            position += HEADER_BYTES + length
          end
          position
        end

        # The length of the record that begins at a position, or what is wrong with it.
        #
        # @param bytes [String] at least HEADER_BYTES from there on
        # @param limit [Integer] what the length is at most
        # @return [Integer, String]
        def length(bytes, position, limit)
          length = bytes.unpack1("N", offset: position)
          return MALFORMED if length < BODY_BYTES_LEAST

          length > limit ? TOO_LONG : length
        end

        # Takes a whole record apart.
        #
        # @param length [Integer] what {length} returned
        # @return [Array(Integer, Integer, String, String, String), String] sequence, time, service,
        #   severity, message; or what is wrong
        def fields(bytes, position, length)
          body = bytes.byteslice(position + HEADER_BYTES, length).force_encoding(Encoding::BINARY)
          return CHECKSUM_FAILED if Zlib.crc32(body) != bytes.unpack1("N", offset: position + 4)

          seq, time_us, service, severity = body.unpack("Q>Q>CC")
          return WRONG_SEQUENCE if seq.zero?

          message = BODY_BYTES_LEAST + service + severity
          return MALFORMED if message > length

          [seq, time_us, body.byteslice(BODY_BYTES_LEAST, service), body.byteslice(BODY_BYTES_LEAST + service, severity),
           body.byteslice(message, length)]
        end
      end
    end
  end
end
