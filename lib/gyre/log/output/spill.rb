# frozen_string_literal: true

# Batches on disk that an output has not taken yet, in order: a folder of its own with a lock and a
# row of segments. Output::Spilling appends and drains; what a crash or a stop has left is there at
# the next start. It uses no output.
#
# What is drained goes out as this server's own, so the folder and its files must be this user's,
# and symlinks are not followed (Spool::Trust).

require "gyre/log/output/access"
require "gyre/log/output/lock"
require "gyre/log/output/spill/segment"
require "gyre/log/output/retry"
require "gyre/log/output/writing"
require "gyre/net/units"

module Gyre
  module Log
    module Output
      # See the head of this file.
      class Spill
        # A segment that is longer gets a successor; a drained one is deleted.
        SEGMENT_BYTES = 4 * 1024 * 1024
        LOCK_PATIENCE_S = 10
        NAME = /\A(\d{12})\.lines\z/.freeze
        private_constant :NAME

        # @return [Integer] bytes that are not drained
        attr_reader :bytes

        # Opens the folder, makes it if it is missing, and locks it.
        #
        # @param folder [String]
        # @param format [Symbol] of the lines
        # @param limit [Integer] bytes
        # @param report [#call, nil]
        # @raise [ArgumentError] it cannot be used, and why
        def initialize(folder, format:, limit:, report: nil, lock_patience_s: LOCK_PATIENCE_S, longest_pause_s: Retry::LONGEST_PAUSE_S)
          @folder, @format, @limit = folder, format, limit
          @retries, @reading = Array.new(2) { Retry.new(folder, report: report, longest_pause_s: longest_pause_s) }
          @segments = []
          @clients = {}
          @bytes = @unsynced_from = 0
          @next_number = 1
          @used = @unsynced = @nameless = @doubtful = false
          take_folder(lock_patience_s)
          recover
        rescue SystemCallError => error
          close
          reason = error.is_a?(Spool::Trust::Refused) ? error.message : "#{folder}: #{SystemCallError.new(nil, error.errno).message}"
          raise ArgumentError, "spill: #{reason}"
        rescue ArgumentError
          close
          raise
        end

        # @return [Boolean]
        def empty? = @bytes.zero?

        # @return [String, nil] why it cannot be written to
        def trouble = @retries.trouble && "#{@folder}: #{@retries.trouble}"

        # @return [Boolean] whether so many bytes may come
        def room?(bytes) = @bytes + bytes <= @limit

        # @param client_id [String]
        # @return [Integer] the last sequence number of the client's that is in it; 0 for none
        def stored_by(client_id) = @clients.fetch(client_id, 0)

        # Adds a batch; waits while the disk is full.
        #
        # @param data [String]
        # @param clients [Hash{String => Integer}, nil]
        # @yieldreturn [Boolean] whether to give it up; asked before each try
        # @return [Boolean] false: it was given up
        def append(data, clients, &give_up)
          clients ||= {}
          head = Segment.head(data, clients)
          use do
            catch(:given_up) do
              tail = tail(&give_up)
              tail.append(head, data, @retries) { throw :given_up, false if yield }
              @bytes += head.bytesize + data.bytesize
              @clients.merge!(clients)
              @unsynced = true
            end
          end
        end

        # Returns when all that was appended is durable, after a failed sync by writing it once
        # more.
        def sync
          return unless @unsynced

          use do
            tail = @segments.last
            bytes = nil
            @retries.until_success("sync") do
              write_again(tail, bytes ||= tail.tail(@unsynced_from)) if @doubtful
              @doubtful = true
              Writing.in_thread { flush(tail) }
            end
            @unsynced_from = tail.size
            @unsynced = @nameless = @doubtful = false
          end
        end

        # @return [Array(String, Hash{String => Integer}), nil] the first batch; nil: there is none
        def first
          until empty?
            return if @doubtful && @segments.size == 1 # it is being synced, and may have to be written once more

            batch = @reading.until_success("read") { @segments.first.first }
            return batch if batch || (@used && @segments.size == 1)

            put_aside
          end
        end

        # The first batch is drained.
        def shift
          segment = @segments.first
          before = segment.bytesize
          best_effort("#{segment.path} may be written once more after a crash") { segment.shift }
          @bytes -= before - segment.bytesize
          tidy
        end

        def close = [*@segments, @lock].compact.each(&:close)

        private

        def take_folder(patience_s)
          make_folder
          Spool::Trust.entry(@folder)
          @lock = ::File.open(::File.join(@folder, "lock"), ::File::RDWR | ::File::CREAT | ::File::NOFOLLOW, Access::PRIVATE)
          Lock.new(@folder, @retries, patience_s).take(@lock)
        end

        def make_folder
          Dir.mkdir(@folder, 0o700)
          Writing.sync_folder(@folder)
        rescue Errno::EEXIST
          nil
        end

        # Only the last segment can be torn: a new one is made when the one before is durable.
        def recover
          names = Dir.children(@folder).grep(NAME).sort
          @next_number = names.last[NAME, 1].to_i + 1 if names.any?
          @segments = names.filter_map { |name| Segment.open(::File.join(@folder, name), @format) }
          @segments.each do |segment|
            torn = segment.recover(last: segment.equal?(@segments.last)) { |clients| @clients.merge!(clients) }
            @retries.report("an unfinished batch is cut off #{segment.path} (#{Units.count(torn, "byte")})") if torn.positive?
            @bytes += segment.bytesize
          end
          @unsynced_from = @segments.last.size if @segments.any?
          @retries.report("#{Units.count(@bytes, "byte of the last run is", "bytes of the last run are")} written first") unless empty?
          tidy
        end

        # The segment that batches are added to. It stays while it is in use, also when all in it is
        # drained meanwhile.
        def tail
          return @segments.last if @segments.any? && @segments.last.size < SEGMENT_BYTES

          sync if @segments.any?
          segment = @retries.until_success("write") do
            throw :given_up, false if yield
            Segment.create(::File.join(@folder, format("%012d.lines", @next_number)), @format)
          end
          @next_number += 1
          @nameless = @unsynced = true
          @unsynced_from = 0
          @segments.push(segment)
          segment
        end

        def use
          former, @used = @used, true
          yield
        ensure
          @used = former
          tidy
        end

        def flush(tail)
          tail.sync
          Writing.sync_folder(::File.join(@folder, "lock")) if @nameless
        end

        def write_again(tail, bytes)
          tail.write_again(@unsynced_from, bytes)
          Writing.refresh_name(tail.path) if @nameless
        end

        def tidy
          while @segments.any? && @segments.first.drained? && (@segments.size > 1 || !@used)
            segment = @segments.shift
            best_effort("#{segment.path} cannot be deleted") { segment.delete }
          end
          @unsynced = false if @segments.empty?
          @clients.clear if empty?
        end

        # A batch is damaged: what stands behind it in its segment cannot be found.
        def put_aside
          segment = @segments.shift
          @bytes -= segment.bytesize
          segment.close
          best_effort("#{segment.path} keeps its name") { ::File.rename(segment.path, "#{segment.path}.damaged") }
          @retries.report("a batch is damaged; the rest is kept in #{segment.path}.damaged")
          @unsynced = false if @segments.empty?
        end

        # What fails here holds up no line.
        def best_effort(otherwise)
          yield
        rescue SystemCallError => error
          @retries.report("#{otherwise}: #{SystemCallError.new(nil, error.errno).message}")
        end
      end
    end
  end
end
