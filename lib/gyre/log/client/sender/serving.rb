# frozen_string_literal: true

# What a log client's sender does while it has a connection: gives it batches, hears what is acknowledged, and notices when the
# server has gone silent. Part of Gyre::Log::Sender, in its thread; a connection's end comes as an exception.

module Gyre
  module Log
    class Sender
      # See the head of this file.
      module Serving
        # Batches that are sent before the others are heard.
        BATCHES_A_TURN = 8
        # What is being written: a batch, its bytes for the wire, how many of them the socket has, whether all records are in them.
        Writing = Struct.new(:batch, :bytes, :written, :all)
        private_constant :BATCHES_A_TURN, :Writing

        private

        def serve
          hear(@link.acknowledged)
          adopt if Uplink.now >= @adopt_at
          @backlog.overflow
          more = send_some
          tell
          wait_connected unless more || finished?
          check_stall
        end

        def adopt
          @adopt_at = Uplink.now + @settings.adoption_interval
          @adoption = Adoption.start(@settings, @outbox.class) { wake } if @settings.spool && !@adopting && !@adoption&.running?
        end

        # Each connection begins with what was acknowledged on the one before: that alone is no progress.
        def hear(number)
          before = @backlog.acknowledged
          @backlog.acknowledge(number) if number
          note_progress if @backlog.acknowledged > before
        end

        # @return [Boolean] whether it stopped only to let others be heard
        def send_some
          BATCHES_A_TURN.times do
            @writing ||= next_writing or return false
            return false unless write_on
          end
          true
        end

        def next_writing
          @stalled_from = Uplink.now unless @backlog.flying?
          batch = @backlog.give or return
          return Writing.new(batch, batch.bytes, 0, true) if @link.acknowledges?

          bytes = @outbox.class.frames(batch.bytes)
          Writing.new(batch, bytes || frames_that_fit(batch.bytes), 0, !bytes.nil?)
        end

        # A server that knew the acknowledged protocol was replaced by one that does not.
        def frames_that_fit(bytes)
          frames = String.new(encoding: Encoding::BINARY)
          Records.each(bytes) do |_, _, *texts|
            frames << Wire.frame(*texts)
          rescue ArgumentError => error
            @dropped += 1
            @settings.report.call("a message is dropped, for #{@settings.address} speaks the old protocol: #{error.message}")
          end
          frames
        end

        # @return [Boolean] whether all of it is written
        def write_on
          while @writing.written < @writing.bytes.bytesize
            rest = @writing.written.zero? ? @writing.bytes : @writing.bytes.byteslice(@writing.written..)
            count = @link.write(rest) or return false
            @writing.written += count
            @stalled_from = Uplink.now
          end
          @sent += @writing.batch.count
          note_progress if !@link.acknowledges? && @backlog.acknowledge(@writing.batch.last)
          @writing = nil
          true
        end

        def wait_connected
          idle = !@writing && !@backlog.any?
          return if idle && !@outbox.await

          now = Uplink.now
          left = [(@stalled_from + @settings.stall_timeout - now if @backlog.flying?), @adopt_at - now, closing_left].compact.min
          doze([@link], ([@link] if @writing), left)
        end

        def note_progress
          @stalled_from = Uplink.now
          @failures = 0
        end

        def check_stall
          return unless @backlog.flying? && Uplink.now - @stalled_from >= @settings.stall_timeout

          raise Errno::ETIMEDOUT, "#{@settings.address} took nothing for #{@settings.stall_timeout} s"
        end
      end
    end
  end
end
