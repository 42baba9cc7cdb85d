# frozen_string_literal: true

# What goes over a log client's connection: batches out, acknowledgements in. Belongs to one
# Gyre::Log::Sender and its thread; it never waits. A connection's end comes as an exception.

require "gyre/clock"
require "gyre/log/wire/records"

module Gyre
  module Log
    # See the head of this file.
    class Transmission
      # Batches that are sent before acknowledgements are read.
      BATCHES_A_TURN = 8
      # A connection has a copy of so much at once.
      PIECE_BYTES = 1 << 18
      # What is being written: a batch, its bytes for the wire, how many of them the connection has,
      # whether all records are in them.
      Writing = Struct.new(:batch, :bytes, :queued, :all)
      private_constant :BATCHES_A_TURN, :PIECE_BYTES, :Writing

      # @return [Integer] records that were sent, those that were sent twice too
      attr_reader :sent
      # @return [Integer] records that the old protocol cannot carry
      attr_reader :dropped
      # @return [ServerConnection, nil]
      attr_reader :connection

      # @param options [ClientOptions]
      # @param outbox [Outbox]
      # @param backlog [Backlog]
      # @yield when the server has taken something
      def initialize(options, outbox, backlog, &progress)
        @options = options
        @outbox = outbox
        @backlog = backlog
        @progress = progress
        @connection = @writing = nil
        @sent = @dropped = 0
      end

      # @param connection [ServerConnection]
      def start(connection)
        @connection = connection
        @outbox.framed = !connection.acknowledges?
        @stalled_from = Clock.now
        note_progress unless connection.acknowledges? && @backlog.any?
      end

      # Reads what is acknowledged. Each connection begins with what was acknowledged on the one
      # before: that alone is no progress.
      def receive
        before = @backlog.acknowledged
        number = @connection.acknowledged
        @backlog.acknowledge(number) if number
        note_progress if @backlog.acknowledged > before
      end

      # Writes what the socket takes.
      # @return [Boolean] whether it stopped only to let acknowledgements be read
      def send_batches
        BATCHES_A_TURN.times do
          @writing ||= next_writing or return false
          return false unless write_on
        end
        true
      end

      # @return [Boolean] whether nothing is to be written
      def idle? = !@writing && !@backlog.any?

      # @return [Float, nil] seconds until the server counts as stalled; nil while nothing is
      #   expected of it
      def left
        @stalled_from + @options.stall_timeout - Clock.now if @backlog.flying?
      end

      # @raise [Errno::ETIMEDOUT]
      def check_stall
        left = self.left
        raise Errno::ETIMEDOUT, "#{@options.address} took nothing for #{@options.stall_timeout} s" if left && left <= 0
      end

      # Gives what is not acknowledged back to the backlog, and closes the connection.
      def stop
        connection, @connection = @connection, nil
        writing, @writing = @writing, nil
        return unless connection

        if writing && !connection.acknowledges?
          written = [writing.queued - connection.unsent_bytes, 0].max
          @backlog.rewind(writing.batch, writing.all ? Outbox.framed(writing.batch.bytes, written) : 0)
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
        return Writing.new(batch, batch.bytes, 0, true) if @connection.acknowledges?

        bytes = Outbox.frames(batch.bytes)
        Writing.new(batch, bytes || frames_that_fit(batch.bytes), 0, !bytes.nil?)
      end

      # A server with the acknowledged protocol was replaced by one without it.
      def frames_that_fit(bytes)
        frames = String.new(encoding: Encoding::BINARY)
        Records.each(bytes) do |_, _, *texts|
          frames << Wire.frame(*texts)
        rescue ArgumentError => error
          @dropped += 1
          @options.report.call("a message is dropped, for #{@options.address} speaks the old protocol: #{error.message}")
        end
        frames
      end

      # @return [Boolean] whether all of it is written
      def write_on
        until (unsent = @connection.unsent_bytes).zero? && @writing.queued == @writing.bytes.bytesize
          unsent += queue_piece if unsent.zero?
          left = @connection.flush
          @stalled_from = Clock.now if left < unsent
          return false if left.positive?
        end
        @sent += @writing.batch.count
        note_progress if !@connection.acknowledges? && @backlog.acknowledge(@writing.batch.last)
        @writing = nil
        true
      end

      def queue_piece
        piece = @writing.bytes.byteslice(@writing.queued, PIECE_BYTES)
        @connection.queue(piece)
        @writing.queued += piece.bytesize
        piece.bytesize
      end

      def note_progress
        @stalled_from = Clock.now
        @progress.call
      end
    end
  end
end
