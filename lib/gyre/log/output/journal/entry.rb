# frozen_string_literal: true

# The bytes of a journal (see journal.rb for what it is for). Pure: bytes in, values out. All
# numbers are big-endian.
#
#   entry                               batch (kind 1)                    snapshot (kind 2)
#   +--------+--------+--------- - -    +------+------+------+------+     +------+------------------ - -
#   | length | CRC-32 | payload         | 1    | time | dev  | ino  |     | 2    | n times:
#   | u32    | u32    |                 | u8   | u64  | u64  | u64  |     | u8   | id 16 bytes, seq u64, seen u64
#   +--------+--------+--------- - -    +------+------+------+------+     +------+------------------ - -
#   length and CRC-32 (zlib's)          | offset | length | CRC-32  |
#   are the payload's                   | u64    | u64    | u32     |
#                                       +--------+--------+-- - -
#                                       | n times: id 16 bytes, seq u64
#
# A batch means: "`length` bytes with this CRC are about to be written at `offset` of the file
# dev/ino; with them, these clients have everything up to seq stored." A snapshot means that without
# a condition. A file is entries one after the other, nothing else; the first one that is not whole
# ends it.
require "zlib"

module Gyre
  module Log
    class Journal
      # A batch that was about to be written. time: seconds since 1970; clients: {32 hex digits =>
      # last sequence number}.
      Batch = Struct.new(:time, :dev, :ino, :offset, :length, :crc, :clients)
      # What each client has stored. clients: {id => [seq, time at which it was seen last]}.
      Snapshot = Struct.new(:clients)

      # Encodes and decodes.
      module Entry
        HEAD_BYTES = 8
        # Longer ones are taken for damage. 24 bytes a client: far more clients than a server has at
        # once.
        LIMIT_BYTES = 64 * 1024 * 1024
        BATCH = "CQ>Q>Q>Q>Q>L>"
        BATCH_BYTES = 45
        # Clients in one entry of a snapshot; more make several entries.
        SNAPSHOT_CLIENTS = 65_536

        module_function

        # @param batch [Batch]
        # @return [String]
        # @raise [ArgumentError] when it has more clients than an entry can hold
        def encode_batch(batch)
          payload = [1, batch.time, batch.dev, batch.ino, batch.offset, batch.length, batch.crc].pack(BATCH)
          batch.clients.each { |id, seq| [id, seq].pack("H32Q>", buffer: payload) }
          raise ArgumentError, "#{batch.clients.size} clients do not fit into one entry" if payload.bytesize > LIMIT_BYTES

          frame(payload)
        end

        # @param clients [Hash{String=>Array(Integer, Integer)}] id => [seq, seen]
        # @return [String] one or more entries; empty without clients
        def encode_snapshot(clients)
          clients.each_slice(SNAPSHOT_CLIENTS).map do |slice|
            payload = "\x02".b
            slice.each { |id, (seq, seen)| [id, seq, seen].pack("H32Q>Q>", buffer: payload) }
            frame(payload)
          end.join
        end

        # @param bytes [String] a whole journal
        # @yieldparam entry [Batch, Snapshot] each whole one
        # @return [Integer] how many bytes they take; what follows is torn or damaged
        def each(bytes)
          at = 0
          while (payload = payload_at(bytes, at)) && (entry = decode(payload))
            yield entry
            at += HEAD_BYTES + payload.bytesize
          end
          at
        end

        def frame(payload)
          [payload.bytesize, Zlib.crc32(payload)].pack("L>L>") << payload
        end

        def payload_at(bytes, at)
          return if at + HEAD_BYTES > bytes.bytesize

          length, crc = bytes.byteslice(at, HEAD_BYTES).unpack("L>L>")
          return if length.zero? || length > LIMIT_BYTES || at + HEAD_BYTES + length > bytes.bytesize

          payload = bytes.byteslice(at + HEAD_BYTES, length)
          payload if Zlib.crc32(payload) == crc
        end

        # @return [Batch, Snapshot, nil] nil when it is neither
        def decode(payload)
          case payload.getbyte(0)
          when 1 then decode_batch(payload)
          when 2 then decode_snapshot(payload)
          end
        end

        def decode_batch(payload)
          return if payload.bytesize < BATCH_BYTES || (payload.bytesize - BATCH_BYTES) % 24 != 0

          _, *fields = payload.unpack(BATCH)
          clients = (BATCH_BYTES...payload.bytesize).step(24).to_h { |at| payload.byteslice(at, 24).unpack("H32Q>") }
          Batch.new(*fields, clients)
        end

        def decode_snapshot(payload)
          return if (payload.bytesize - 1) % 32 != 0

          Snapshot.new((1...payload.bytesize).step(32).to_h do |at|
            id, seq, seen = payload.byteslice(at, 32).unpack("H32Q>Q>")
            [id, [seq, seen]]
          end)
        end

        private_class_method :frame, :payload_at, :decode, :decode_batch, :decode_snapshot
      end
    end
  end
end
