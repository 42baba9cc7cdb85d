# frozen_string_literal: true

# Sends batches over a log client's connection and reads acknowledgements. Belongs to one
# Gyre::Log::Delivery. Never waits; raises when the connection ends.

require "gyre/clock"
require "gyre/settings/units"

module Gyre
  module Log
    class Transmission
      # Maximum batches to send before acknowledgements are read again.
      BATCHES_A_TURN = 8
      # A batch that is being sent. `bytesize` is its size on the wire.
      Writing = Struct.new(:batch, :bytesize)

      attr_reader :sent # records sent, repeats included
      attr_reader :dropped # records that the old protocol cannot carry
      attr_reader :connection

      # Calls the block after each acknowledgement.
      def initialize(options, outbox, backlog, &progress)
        @options = options
        @outbox = outbox
        @backlog = backlog
        @progress = progress
        @connection = @writing = nil
        @sent = @dropped = 0
      end

      def start(connection)
        @connection = connection
        @outbox.framed = !connection.acknowledges?
        @stalled_from = Clock.now
        note_progress unless connection.acknowledges? && @backlog.any?
      end

      # Reads acknowledgements. A connection's first acknowledgement may repeat an old number; this
      # is not progress.
      def receive
        before = @backlog.acknowledged
        @connection.acknowledged { |number| @backlog.acknowledge(number) }
        note_progress if @backlog.acknowledged > before
      end

      # Writes batches until the socket is full, or BATCHES_A_TURN. True in the second case: the
      # caller must read replies and call again.
      def send_batches
        BATCHES_A_TURN.times do
          @writing ||= next_writing or return false
          return false unless write_on
        end
        true
      end

      def idle? = !@writing && !@backlog.any?

      # Seconds until the server counts as stalled; nil if no acknowledgement is due.
      def left = (@stalled_from + @options.stall_timeout - Clock.now if @backlog.flying?)

      # Raises Errno::ETIMEDOUT.
      def check_stall
        left = self.left
        raise Errno::ETIMEDOUT, "#{@options.address} took nothing for #{@options.stall_timeout} s" if left && left <= 0
      end

      # Returns unacknowledged batches to the backlog, and closes the connection.
      def stop
        connection, @connection = @connection, nil
        writing, @writing = @writing, nil
        return unless connection

        if writing && !connection.acknowledges?
          @backlog.rewind(writing.batch, Outbox.framed(writing.batch.bytes, [writing.bytesize - connection.unsent_bytes, 0].max))
        else
          @backlog.rewind
        end
      ensure
        connection&.close
      end

      private

      def next_writing
        @stalled_from = Clock.now unless @backlog.flying?
        batch = @backlog.give or return
        bytes = @connection.acknowledges? ? batch.bytes : frames(batch.bytes)
        @connection.queue(bytes)
        Writing.new(batch, bytes.bytesize)
      end

      # Converts records to Analogger's frames. Drops records that are too large for a frame.
      def frames(bytes)
        frames, dropped = Outbox.frames(bytes)
        @dropped += dropped
        dropped = dropped.positive? && Units.count(dropped, "message is", "messages are")
        @options.report.call("#{dropped} dropped: #{@options.address} speaks the old protocol, which does not carry them") if dropped
        frames
      end

      # Returns true if the socket has taken the whole batch.
      def write_on
        unsent = @connection.unsent_bytes
        left = @connection.flush
        @stalled_from = Clock.now if left < unsent
        return false if left.positive?

        @sent += @writing.batch.count
        unless @connection.acknowledges?
          @backlog.acknowledge(@writing.batch.last)
          note_progress
        end
        @writing = nil
        true
      end

      def note_progress
        @stalled_from = Clock.now
        @progress.call
      end
    end
  end
end
