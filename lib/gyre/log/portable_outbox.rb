# frozen_string_literal: true

# Gyre::Log::NativeOutbox in pure Ruby: the contract stands in outbox.rb. Taken where the extension is missing. A mutex keeps the
# numbers and the bytes together; a signal handler, which may take none, leaves its message in a queue beside it.

require "zlib"

module Gyre
  module Log
    # See outbox.rb.
    class PortableOutbox
      # Before a record's service; what its length does not count; the least that its length is.
      HEAD_BYTES = 26
      PREFIX_BYTES = 8
      NAME_BYTES_LIMIT = 255
      FRAME_HEAD_BYTES = 11
      FRAME_BYTES_LIMIT = 8191
      BATCH_BYTES_LEAST = 4096
      SEVERITIES = %w[debug info warn error fatal].freeze
      ENCODINGS = [Encoding::UTF_8, Encoding::US_ASCII, Encoding::BINARY].freeze
      private_constant :NAME_BYTES_LIMIT, :BATCH_BYTES_LEAST, :SEVERITIES, :ENCODINGS

      class << self
        # @param bytes [String]
        # @param limit [Integer] of a record
        # @return [Array(Integer, Integer, Integer)]
        def measure(bytes, limit)
          offset = count = last = 0
          while (length = whole(bytes, offset)) && length <= limit
            body = bytes.byteslice(offset + PREFIX_BYTES, length - PREFIX_BYTES)
            break if Zlib.crc32(body) != bytes.unpack1("N", offset: offset + 4)

            last = bytes.unpack1("Q>", offset: offset + 8)
            offset += length
            count += 1
          end
          [offset, count, last]
        end

        # @param bytes [String]
        # @param sequence [Integer]
        # @return [Integer]
        def after(bytes, sequence)
          offset = 0
          while (length = whole(bytes, offset)) && bytes.unpack1("Q>", offset: offset + 8) <= sequence
            offset += length
          end
          offset
        end

        # @param bytes [String]
        # @return [String, nil]
        def frames(bytes)
          frames = String.new(encoding: Encoding::BINARY)
          offset = 0
          while (length = whole(bytes, offset))
            service, severity = bytes.unpack("CC", offset: offset + 24)
            names = bytes.byteslice(offset + HEAD_BYTES, service + severity)
            frame = length - HEAD_BYTES + FRAME_HEAD_BYTES
            return if frame > FRAME_BYTES_LIMIT || names.include?(":")

            frames << format("%<n>04d%<n>04d:", n: frame) << names.byteslice(0, service) << ":" << names.byteslice(service, severity) <<
              ":" << bytes.byteslice(offset + HEAD_BYTES + names.bytesize, length - HEAD_BYTES - names.bytesize)
            offset += length
          end
          frames
        end

        # @param bytes [String]
        # @param count [Integer]
        # @return [Integer]
        def framed(bytes, count)
          offset = 0
          while (length = whole(bytes, offset)) && length - HEAD_BYTES + FRAME_HEAD_BYTES <= count
            count -= length - HEAD_BYTES + FRAME_HEAD_BYTES
            offset += length
          end
          offset
        end

        private

        # The length of the record there, if it is all there.
        def whole(bytes, offset)
          left = bytes.bytesize - offset
          return if left < HEAD_BYTES

          length = bytes.unpack1("N", offset: offset) + PREFIX_BYTES
          names = bytes.unpack("CC", offset: offset + 24).sum
          length if length <= left && length >= HEAD_BYTES + names
        end
      end

      attr_accessor :attention, :held, :framed
      attr_reader :sequence

      def initialize(service, limit, record_limit, framed)
        raise ArgumentError, "a service's name has at most 255 bytes" if service.bytesize > NAME_BYTES_LIMIT

        @service = service.b.freeze
        @limit = limit
        @record_limit = record_limit
        @framed = framed
        @batch_limit = [limit / 16, BATCH_BYTES_LEAST].max
        reset
      end

      def append(severity, message)
        @attention ? false : store(severity, message, false)
      end

      def store(severity, message, beyond_limit)
        severity = severity.is_a?(Integer) ? SEVERITIES[severity.clamp(0, 4)] : severity
        return false if forked? || !(severity.is_a?(String) || severity.is_a?(Symbol)) || !as_it_is?(message)

        severity = severity.to_s.b
        return false unless carried?(severity, message)

        time_us = Process.clock_gettime(Process::CLOCK_REALTIME, :microsecond)
        @lock.synchronize { put(severity, message.b, time_us, beyond_limit) }
      rescue ThreadError # in a signal handler
        @late << [severity, message.b, time_us]
        wanted?
      end

      def take
        @lock.synchronize do
          put(*@late.pop(true), true) until @late.empty?
          seal if @batches.empty? && @count.positive?
          entry = @batches.shift
          @bytesize -= entry.first.bytesize if entry
          entry
        end
      end

      def await
        @lock.synchronize { @sleeping = @bytesize.zero? && @late.empty? }
      end

      def awake
        @sleeping = false
        nil
      end

      def bytesize
        @bytesize + (@late.empty? ? 0 : 1)
      end

      def forked?
        @pid != Process.pid
      end

      def reset
        @lock = Mutex.new
        @late = Thread::Queue.new
        @batches = []
        @pid = Process.pid
        @sequence = @bytesize = @held = 0
        @attention = @sleeping = false
        open_batch
        self
      end

      private

      def as_it_is?(message)
        message.is_a?(String) && ENCODINGS.include?(message.encoding)
      end

      def carried?(severity, message)
        names = @service.bytesize + severity.bytesize
        return false if severity.bytesize > NAME_BYTES_LIMIT || HEAD_BYTES + names + message.bytesize > @record_limit

        !@framed || (names + message.bytesize + FRAME_HEAD_BYTES <= FRAME_BYTES_LIMIT && !severity.include?(":"))
      end

      def put(severity, message, time_us, beyond_limit)
        length = HEAD_BYTES + @service.bytesize + severity.bytesize + message.bytesize
        used = @bytesize + @held
        return false if used + length > @limit && used.positive? && !beyond_limit

        seal if @count.positive? && @batch.bytesize + length > @batch_limit
        body = [@sequence += 1, time_us, @service.bytesize, severity.bytesize].pack("Q>Q>CC") << @service << severity << message
        @batch << [body.bytesize, Zlib.crc32(body)].pack("NN") << body
        @bytesize += length
        @count += 1
        wanted?
      end

      # What append answers when it has stored: nil once for each time that the sender went to sleep.
      def wanted?
        return true unless @sleeping

        @sleeping = false
        nil
      end

      def seal
        @batches << [@batch, @sequence, @count]
        open_batch
      end

      def open_batch
        @batch = String.new(encoding: Encoding::BINARY)
        @count = 0
      end
    end
  end
end
