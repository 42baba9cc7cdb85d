# frozen_string_literal: true

# The records of acknowledged logging (gyre/log/wire/records.rb) in Ruby: for tests that make some,
# and for the ingest in Ruby. It has no socket, no file and no clock.

require "gyre/errors"
require "gyre/log/wire/records"
require "zlib"

module Gyre
  module Log
    # All Strings that come out are BINARY.
    module Records
      # What is wrong with a record; behind "error: " it is the protocol's reply.
      CHECKSUM_FAILED = "checksum failed"
      TOO_LONG = "max length exceeded"
      WRONG_SEQUENCE = "sequence number 0"
      MALFORMED = "malformed record"

      class << self
        # Makes a record. `seq` is 1 or more and rises; names have up to 255 bytes. Raises
        # ArgumentError if a record cannot carry them.
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

        # The whole records at the beginning of some bytes. Returns the bytes of these records.
        # Raises ProtocolError for a broken one.
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
        def length(bytes, position, limit)
          length = bytes.unpack1("N", offset: position)
          return MALFORMED if length < BODY_BYTES_LEAST

          length > limit ? TOO_LONG : length
        end

        # Takes a whole record apart. Returns sequence, time, service, severity, message; or what is
        # wrong.
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
