# frozen_string_literal: true

# A disk queue (disk_queue.rb) of batches that an output has not taken. Output::Spilling appends,
# syncs and drains it. After a crash or a stop, the next start drains the rest.
#
# Each batch is a record (wire/records.rb) without time, service and severity. Its sequence number
# is the number of clients; its message has the clients (id 16 bytes, u64 sequence number) and the
# lines. Drained lines appear as this server's own, so its user must own folder and files
# (Ownership).

require "gyre/log/disk_queue"
require "gyre/log/ingest"
require "gyre/log/output/access"
require "gyre/log/output/lock"
require "gyre/log/output/writing"

module Gyre
  module Log
    module Output
      class Spill
        SEGMENT_BYTES = 4 * 1024 * 1024
        LOCK_PATIENCE_S = 10
        RECORD_BYTES_LIMIT = 0xffff_ffff
        CLIENT_BYTES = 24
        # Limit of the disk queue: none, because {#room?} checks the spill's limit.
        UNLIMITED = 1 << 62

        def initialize(folder, format:, limit:, report: nil, lock_patience_s: LOCK_PATIENCE_S, longest_pause_s: Retry::LONGEST_PAUSE_S)
          @retries, @reading = Array.new(2) { Retry.new(folder, report: report, longest_pause_s: longest_pause_s) }
          @limit = limit
          @clients = {}
          @busy = @doubtful = false
          lock = take(folder, lock_patience_s)
          forget_pages(folder)
          @queue = DiskQueue.new(folder, lock, format: format, limit: UNLIMITED, record_limit: RECORD_BYTES_LIMIT,
                                               segment_bytes: SEGMENT_BYTES, report: @retries.method(:report))
          recover
        rescue SystemCallError, ArgumentError => error
          close
          raise if error.is_a?(ArgumentError)

          reason = error.is_a?(Ownership::Refused) ? error.message : "#{folder}: #{SystemCallError.new(nil, error.errno).message}"
          raise ArgumentError, "spill: #{reason}"
        end

        def bytes = @queue.bytesize

        def empty? = @queue.empty?

        def trouble = @retries.trouble && "#{@queue.path}: #{@retries.trouble}"

        def room?(bytes) = @queue.bytesize + bytes <= @limit

        def stored_by(client_id) = @clients.fetch(client_id, 0)

        def append(data, clients)
          busy do
            record = encode(data, clients || {})
            sync if @queue.starts_segment?(record.bytesize)
            @retries.until_success("write") do
              return if yield

              @queue.append(record) { |file| Writing.put(file, record, @retries) { return if yield } }
            end
            @clients.merge!(clients) if clients
            @queue.end_mark
          end
        end

        # Makes all appended batches durable. Writes them again after a failed sync.
        def sync
          segment = @queue.last
          return if segment.nil? || segment.synced?

          busy do
            bytes = nil
            @retries.until_success("sync") do
              segment.write_again(bytes ||= segment.doubtful) if @doubtful
              @doubtful = true
              Writing.in_thread { segment.sync }
            end
            @doubtful = false
          end
        end

        def first
          return if @doubtful && @queue.one_segment?

          @queue.rewind
          records, _, _, mark = @reading.until_success("read") { @queue.read }
          return tidy unless records

          clients = {}
          lines = decode(records) { |these| clients.merge!(these) }
          [lines, clients, mark]
        end

        # Marks batches up to `mark` as drained. Does not sync, so a power failure may undo this.
        def drained(mark)
          @queue.acknowledge(mark)
          tidy
        end

        def close = @queue&.close

        private

        def take(folder, patience_s)
          make(folder)
          Ownership.check_folder(folder)
          lock = File.open(File.join(folder, "lock"), File::RDWR | File::CREAT | File::NOFOLLOW, Access::PRIVATE)
          Lock.new(folder, @retries, patience_s).take(lock)
          taken = lock
        ensure
          lock&.close unless taken
        end

        # Creates the folder unless it exists.
        def make(folder)
          Dir.mkdir(folder, 0o700)
          Disk.sync_folder(folder)
        rescue Errno::EEXIST
          nil
        end

        # After a failed sync and a kill, the page cache may have bytes that are not on disk.
        def forget_pages(folder) = Dir.glob("*.records", base: folder) { |name| Disk.forget_pages(File.join(folder, name)) }

        def recover
          while (records, = @queue.read)
            decode(records) { |clients| @clients.merge!(clients) }
          end
          @queue.sync
          @retries.report("#{Units.count(bytes, "byte of the last run is", "bytes of the last run are")} written first") unless empty?
          tidy
        end

        def encode(data, clients)
          body = [clients.size, 0, 0, 0].pack("Q>Q>CC")
          clients.each { |id, sequence| [id, sequence].pack("H32Q>", buffer: body) }
          body << data
          [body.bytesize, Ingest.crc32(body)].pack("NN") << body
        end

        def decode(bytes)
          at = 0
          lines = String.new(encoding: Encoding::BINARY)
          while at < bytes.bytesize
            length, count = bytes.unpack("Nx4Q>", offset: at)
            clients_at = at + Records::HEADER_BYTES + Records::BODY_BYTES_LEAST
            yield bytes.unpack("H32Q>" * count, offset: clients_at).each_slice(2).to_h
            at += Records::HEADER_BYTES + length
            lines_at = clients_at + (count * CLIENT_BYTES)
            lines << bytes.byteslice(lines_at, at - lines_at)
          end
          lines
        end

        # Keeps the newest segment during the block, even if it is drained.
        def busy
          former, @busy = @busy, true
          yield
        ensure
          @busy = former
          tidy
        end

        def tidy
          return unless empty?

          @clients.clear
          @queue.clear unless @busy
          nil
        end
      end
    end
  end
end
