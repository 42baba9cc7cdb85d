# frozen_string_literal: true

# An output in front of another one, which may stand still: what that does not take in time goes to
# a spill on disk, counts as stored there, and is drained in order, before anything newer, when the
# other works again. Made by Output.open for `when_full: spill`.
#
#   write ──► spill empty: the writer's task gives the batch to the output ──► taken in time: stored
#                │ not empty                          │ not taken within STILL_S
#                └────────► appended to the spill ◄───┘            the writer drains: first, write, shift, …
#
# What was given to the output and spilled as well is the spill's first batch until the output has
# taken it. So a kill brings at most one batch twice, and long batches of lines are cut into
# several. When the spill is full, write waits.

require "gyre/clock"
require "gyre/sync/condition"
require "gyre/log/output/defaults"
require "gyre/log/output/reconnecting_socket"
require "gyre/log/output/spill"
require "gyre/task"

module Gyre
  module Log
    module Output
      # Has the methods of every output.
      class Spilling
        include Defaults

        # An output that has not taken a batch for so long stands still.
        STILL_S = 0.5
        # Of lines, at once. Redis's commands stay together.
        PIECE_BYTES = 2 * 1024 * 1024
        # How long {#rest} waits for an output that gives no sign of trouble.
        REST_S = 1.0

        # What the writer has in hand: whether it is in the spill as well, and whether the output
        # has taken it.
        Batch = Struct.new(:data, :clients, :spilled, :taken)
        private_constant :Batch

        # @param output [Socket, Descriptor, Redis]
        # @param spill [Spill]
        def initialize(output, spill, still_s: STILL_S)
          @output, @spill, @still_s = output, spill, still_s
          @batch = @failure = nil
          @full = @resting = @reopen = false
          @work = Condition.new
          @moved = Condition.new # the writer has finished a batch
        end

        # Starts the writer, as a child of the calling task.
        def prepare
          @writer ||= Task.current.async("log spill of #{self}", transient: true) { work }
        end

        # Returns when the output or the spill has all of it.
        # @param data [String] binary
        def write(data, clients = nil)
          prepare
          at = 0
          while (upto = piece_end(data, at)) < data.bytesize
            put(data.byteslice(at, upto - at), nil)
            at = upto
          end
          put(at.zero? ? data : data.byteslice(at..), clients)
        end

        # What is in the spill is durable afterwards.
        def sync
          @spill.sync
          @work.signal
        end

        # The other output is reopened before its next batch.
        def reopen
          @reopen = true
          @work.signal
        end

        # Drains nothing more, and lets the output finish what it has in hand, if it works: before
        # the server ends.
        #
        # @param timeout_s [Numeric]
        def rest(timeout_s)
          @resting = true
          deadline = Clock.now + [timeout_s, REST_S].min
          @moved.wait(timeout: deadline - Clock.now) while @batch && @output.trouble.nil? && Clock.now < deadline
        end

        # Drains again.
        def resume
          @resting = false
          @work.signal
        end

        def close
          @spill.close
          @output.close
        end

        # An output that fails is not waited for, and the client may then send again what that has.
        # @return [Integer]
        def stored_by(client_id)
          [@spill.stored_by(client_id), @output.stored_by(client_id)].max
        rescue Unavailable
          @spill.stored_by(client_id)
        end

        def shared? = @output.shared?

        def format = @output.format

        def sink_options = @output.sink_options

        # @return [String, nil] why batches wait in memory
        def trouble
          return @spill.trouble unless @full

          "its spill is full, and #{@output.trouble || "what it has is not taken"}"
        end

        # @return [Hash{Symbol => Object}] the trouble of the output, also while batches do not wait
        #   for it
        def status = { trouble: trouble || @output.trouble, spilled: @spill.bytes }

        def to_s = @output.to_s

        private

        # The clients have all only with the last one.
        def piece_end(data, at)
          return data.bytesize if data.bytesize - at <= PIECE_BYTES || format == :redis

          upto = data.rindex("\n", at + PIECE_BYTES - 1)
          upto = data.index("\n", at + PIECE_BYTES) if upto.nil? || upto < at
          upto ? upto + 1 : data.bytesize
        end

        def put(data, clients)
          batch = nil
          loop do
            raise @failure if @failure

            batch = hand_over(data, clients) if batch.nil? && idle?
            return if batch && taken_in_time?(batch)
            break if append(data, clients, batch)
          end
          batch&.taken ? @spill.shift : batch&.spilled = true
          @work.signal
        end

        # In a task of its own, for ever.
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
          @spill.shift if batch.spilled
          @batch = nil
          @moved.signal
        end

        def drain
          data, clients = @spill.first
          Batch.new(data, clients, true, false) if data
        end

        def reopen_output
          @reopen = false
          @output.reopen
        end

        def idle? = @batch.nil? && @spill.empty?

        # The caller's bytes get others when it has returned, so the writer has its own.
        def hand_over(data, clients)
          @batch = Batch.new(data.dup, clients, false, false)
          @work.signal
          @batch
        end

        def taken_in_time?(batch)
          deadline = Clock.now + @still_s
          @moved.wait(timeout: deadline - Clock.now) until batch.taken || @failure || Clock.now >= deadline
          batch.taken
        end

        # @return [Boolean] false: the output works again before it was appended
        def append(data, clients, batch)
          needless = -> { @failure || (batch ? batch.taken : idle?) }
          until @spill.room?(data.bytesize)
            return false if needless.call

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
