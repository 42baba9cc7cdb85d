# frozen_string_literal: true

# Puts a spill before an output that may stall. Late batches go to disk and count as stored. They
# are drained later, in order. Made by Output.open for `when_full: spill`.
#
#   write ──► spill empty: the writer's task gives the batch to the output ──► taken in time: stored
#                │ not empty                          │ not taken within STILL_S
#                └────────► appended to the spill ◄───┘            the writer drains: first, write, drained, …
#
# A batch that the output is writing may also be spilled, so a kill may repeat this batch, but no
# other. Long batches are cut. If the spill is full, {#write} waits.

require "gyre/sync/condition"
require "gyre/log/output/defaults"
require "gyre/log/output/spill"

module Gyre
  module Log
    module Output
      class Spilling
        # Seconds without progress until an output counts as stalled.
        STILL_S = 0.5
        # Maximum bytes of lines given to the output at once. Commands for Redis are not cut.
        PIECE_BYTES = 2 * 1024 * 1024
        # Maximum seconds that {#rest} waits for a working output.
        REST_S = 1.0

        # The writer's batch. `mark` is its end in the spill, or nil if it is not spilled. `taken`
        # is true after the output has written the batch.
        Batch = Struct.new(:data, :clients, :mark, :taken)

        def initialize(output, spill, still_s: STILL_S)
          @output, @spill, @still_s = output, spill, still_s
          @batch = @failure = nil
          @full = @resting = @reopen = false
          @work = Condition.new
          @moved = Condition.new # the writer has finished a batch
        end

        # Starts the writer, as a child of the calling task.
        def prepare = @writer ||= Task.current.async("log spill of #{self}", transient: true) { work }

        def write(data, clients = nil)
          prepare
          at = 0
          while (upto = piece_end(data, at)) < data.bytesize
            put(data.byteslice(at, upto - at), nil)
            at = upto
          end
          put(at.zero? ? data : data.byteslice(at..), clients)
        end

        def sync
          @spill.sync
          @work.signal
        end

        def reopen
          @reopen = true
          @work.signal
        end

        # Stops draining. Waits until a working output has written its batch.
        def rest(timeout_s)
          @resting = true
          deadline = Clock.now + [timeout_s, REST_S].min
          @moved.wait(timeout: deadline - Clock.now) while @batch && @output.trouble.nil? && Clock.now < deadline
        end

        def resume
          @resting = false
          @work.signal
        end

        def close
          @spill.close
          @output.close
        end

        # If the output is unavailable, only the spill counts: clients may then repeat stored
        # records.
        def stored_by(client_id)
          [@spill.stored_by(client_id), @output.stored_by(client_id)].max
        rescue Unavailable
          @spill.stored_by(client_id)
        end

        def format = @output.format

        def sink_options = @output.sink_options

        def trouble
          return @spill.trouble unless @full

          "its spill is full, and #{@output.trouble || "its contents are not sent"}"
        end

        def status = { trouble: trouble || @output.trouble, spilled: @spill.bytes }

        def to_s = @output.to_s

        private

        # Returns the offset at which the piece that begins at `at` ends, behind a line. Only the
        # last piece has the clients' numbers.
        def piece_end(data, at)
          return data.bytesize if data.bytesize - at <= PIECE_BYTES || format == :redis

          upto = data.rindex("\n", at + PIECE_BYTES - 1)
          upto = data.index("\n", at + PIECE_BYTES) if upto.nil? || upto < at
          upto ? upto + 1 : data.bytesize
        end

        def put(data, clients)
          batch = mark = nil
          loop do
            raise @failure if @failure

            batch = hand_over(data, clients) if batch.nil? && idle?
            return if batch && taken_in_time?(batch)
            mark = append(data, clients, batch) and break
          end
          batch.taken ? @spill.drained(mark) : batch.mark = mark if batch
          @work.signal
        end

        def work
          @output.prepare
          loop do
            reopen_output if @reopen && @batch.nil?
            @batch ||= drain unless @resting
            @batch ? write_batch : @work.wait
          end
        rescue StandardError => error
          @failure = error
          @moved.signal
        end

        def write_batch
          batch = @batch
          @output.write(batch.data, batch.clients)
          batch.taken = true
          @spill.drained(batch.mark) if batch.mark
          @batch = nil
          @moved.signal
        end

        def drain
          data, clients, mark = @spill.first
          Batch.new(data, clients, mark, false) if data
        end

        def reopen_output
          @reopen = false
          @output.reopen
        end

        def idle? = @batch.nil? && @spill.empty?

        # Copies the bytes, because the caller reuses their memory.
        def hand_over(data, clients)
          @batch = Batch.new(data.dup, clients, nil, false)
          @work.signal
          @batch
        end

        def taken_in_time?(batch)
          deadline = Clock.now + @still_s
          @moved.wait(timeout: deadline - Clock.now) until batch.taken || @failure || Clock.now >= deadline
          batch.taken
        end

        # Appends to the spill. Returns nil if the output takes the batch first.
        def append(data, clients, batch)
          needless = -> { @failure || (batch ? batch.taken : idle?) }
          until @spill.room?(data.bytesize)
            return if needless.call

            @full = true
            @moved.wait
          end
          @full = false
          @spill.append(data, clients, &needless)
        ensure
          @full = false
        end
      end
    end
  end
end
