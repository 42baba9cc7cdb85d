# frozen_string_literal: true

# Encodes and decodes entries of a journal (journal.rb). Pure: bytes in, values out. Big-endian.
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
# A batch: "`length` bytes with this CRC will be at `offset` of the file dev/ino; then these clients
# have everything up to seq stored." A snapshot says the same unconditionally. The first torn or
# damaged entry ends the file.
require "zlib"

module Gyre
  module Log
    class Journal
      # Before its write. `time`: seconds since 1970; `clients`: {32 hex digits => last sequence
      # number}.
      Batch = Struct.new(:time, :dev, :ino, :offset, :length, :crc, :clients)
      # Stored records of clients: {id => [seq, time last seen]}.
      Snapshot = Struct.new(:clients)

      module Entry
        HEAD_BYTES = 8
        # Longer entries count as damage.
        LIMIT_BYTES = 64 * 1024 * 1024
        BATCH = "CQ>Q>Q>Q>Q>L>"
        BATCH_BYTES = 45
        # Clients per entry of a snapshot.
        SNAPSHOT_CLIENTS = 65_536

        module_function

        # Raises ArgumentError if an entry cannot hold the clients.
        def encode_batch(batch)
          payload = [1, batch.time, batch.dev, batch.ino, batch.offset, batch.length, batch.crc].pack(BATCH)
          batch.clients.each { |id, seq| [id, seq].pack("H32Q>", buffer: payload) }
          raise ArgumentError, "#{batch.clients.size} clients do not fit into one entry" if payload.bytesize > LIMIT_BYTES

          frame(payload)
        end

        # Returns an empty String without clients.
        def encode_snapshot(clients)
          clients.each_slice(SNAPSHOT_CLIENTS).map do |slice|
            payload = "\x02".b
            slice.each { |id, (seq, seen)| [id, seq, seen].pack("H32Q>Q>", buffer: payload) }
            frame(payload)
          end.join
        end

        # Returns the bytes of whole entries; the rest is torn or damaged.
        def each(bytes)
          at = 0
          while (payload = payload_at(bytes, at)) && (entry = decode(payload))
            yield entry
            at += HEAD_BYTES + payload.bytesize
          end
          at
        end

        # True if these bytes can be the beginning of an entry cut off by a crash.
        def torn?(bytes)
          length = bytes.unpack1("L>")
          length.nil? || bytes.bytesize < HEAD_BYTES || (length.between?(1, LIMIT_BYTES) && HEAD_BYTES + length > bytes.bytesize)
        end

        def frame(payload) = [payload.bytesize, Zlib.crc32(payload)].pack("L>L>") << payload

        def payload_at(bytes, at)
          return if at + HEAD_BYTES > bytes.bytesize

          length, crc = bytes.byteslice(at, HEAD_BYTES).unpack("L>L>")
          return if length.zero? || length > LIMIT_BYTES || at + HEAD_BYTES + length > bytes.bytesize

          payload = bytes.byteslice(at + HEAD_BYTES, length)
          payload if Zlib.crc32(payload) == crc
        end

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
      end
    end
  end
end
