# frozen_string_literal: true

# Encodes and decodes entries of a journal (journal.rb). Pure: bytes in, values out.
#
#   u32 length of text │ u32 CRC-32 of text │ text: values of a Batch or Snapshot as JSON
#
# Integers are big-endian. A Batch means: if the file of `dev` and `ino` has `length` bytes with
# this CRC at `offset`, the clients' records up to their sequence numbers are stored. A Snapshot's
# numbers count in any case. Reading ends at the first torn or damaged entry.
require "json"
require "zlib"

module Gyre
  module Log
    class Journal
      # A batch to be written. `time`: seconds since 1970; `clients`: {id => last sequence number}.
      Batch = Struct.new(:time, :dev, :ino, :offset, :length, :crc, :clients)
      # `clients` is {id => [last stored sequence number, time last seen]}.
      Snapshot = Struct.new(:clients)

      module Entry
        HEAD_BYTES = 8
        # Maximum bytes of an entry's text. Longer entries count as damaged.
        LIMIT_BYTES = 64 * 1024 * 1024
        # Maximum clients per entry of a snapshot.
        SNAPSHOT_CLIENTS = 65_536

        module_function

        # Raises ArgumentError if an entry cannot hold the clients.
        def encode(entry)
          text = JSON.generate(entry.to_a)
          raise ArgumentError, "#{entry.clients.size} clients do not fit into one entry" if text.bytesize > LIMIT_BYTES

          [text.bytesize, Zlib.crc32(text)].pack("L>L>") << text
        end

        # Returns an empty String if there are no clients.
        def encode_snapshot(clients) = clients.each_slice(SNAPSHOT_CLIENTS).map { |slice| encode(Snapshot.new(slice.to_h)) }.join

        # Yields whole entries. Returns their total length; the rest is torn or damaged.
        def each(bytes)
          at = 0
          while (text = text_at(bytes, at)) && (entry = decode(text))
            yield entry
            at += HEAD_BYTES + text.bytesize
          end
          at
        end

        # True if the bytes can be the beginning of an entry that a crash has cut off.
        def torn?(bytes)
          length = bytes.unpack1("L>")
          length.nil? || bytes.bytesize < HEAD_BYTES || (length.between?(1, LIMIT_BYTES) && HEAD_BYTES + length > bytes.bytesize)
        end

        def text_at(bytes, at)
          return if at + HEAD_BYTES > bytes.bytesize

          length, crc = bytes.unpack("L>L>", offset: at)
          return if length.zero? || length > LIMIT_BYTES || at + HEAD_BYTES + length > bytes.bytesize

          text = bytes.byteslice(at + HEAD_BYTES, length)
          text if Zlib.crc32(text) == crc
        end

        def decode(text)
          members = JSON.parse(text)
          members.one? ? Snapshot.new(*members) : Batch.new(*members)
        rescue JSON::ParserError
          nil # of another version
        end
      end
    end
  end
end
