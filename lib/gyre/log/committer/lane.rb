# frozen_string_literal: true

# One output and the task that writes to it: a queue of what the passes took, written and synced in order. Made by the Committer,
# of which it knows only whom to tell when a batch is stored. Only `run` waits for the output.

require "gyre/clock"
require "gyre/condition"

module Gyre
  module Log
    class Committer
      # The way from some sinks to one output.
      class Lane
        # What a pass took. since: none of its bytes is older than that; checkpoints: of the clients that have records in it.
        Batch = Struct.new(:data, :clients, :checkpoints, :since)
        # Batches that wait are written in one go, up to that.
        MERGED_BYTES = 4 * 1024 * 1024

        # @return [Integer] bytes taken and not yet written
        attr_reader :bytes

        # @param output [Output]
        # @param sinks [Array]
        # @param stored [#call] is given the checkpoints of what is stored
        def initialize(output, sinks, stored)
          @output = output
          @sinks = sinks
          @stored = stored
          @queue = []
          @bytes = @written = 0
          @empty_at = Clock.now # when the sinks were seen empty last
          @unsynced_since = @writing = nil
          @taken = @put = @synced = 0 # batches so far: in the queue, written, durable
          @sync_at = @reopen_at = nil # after which of them
          @stopping = false
          @work = Condition.new
          @finished = Condition.new
        end

        # Empties the sinks into the queue.
        # @param checkpoints [Hash{String=>Checkpoint}] of this pass, by client
        def take(checkpoints, now)
          @sinks.each do |sink|
            data, clients = sink.take
            next unless data

            waiting = clients.keys.filter_map { |id| checkpoints[id] }
            waiting.each { |checkpoint| checkpoint.open += 1 }
            @queue << Batch.new(data, clients, waiting, @empty_at)
            @bytes += data.bytesize
            @taken += 1
          end
          @empty_at = now
          @work.signal unless @queue.empty?
        end

        # Has everything that is queued now written and synced.
        # @return [Integer] a ticket for {#await}
        def order_sync
          @sync_at = @taken if @synced < @taken
          @work.signal
          @taken
        end

        # @param ticket [Integer]
        # @param deadline [Float, nil]
        # @return [Boolean] whether it is done
        def await(ticket, deadline)
          until @synced >= ticket
            left = deadline && (deadline - Clock.now)
            return false if left && left <= 0

            @finished.wait(left)
          end
          true
        end

        # Has the output opened anew after what is queued now.
        def order_reopen
          @reopen_at = @taken
          @output.reopen_soon if @writing && @output.respond_to?(:reopen_soon)
          @work.signal
        end

        # The lane's task.
        def run
          until @stopping
            if due?(@sync_at) then sync
            elsif due?(@reopen_at) then reopen
            elsif @queue.any? then write
            else @work.wait
            end
          end
        end

        def stop
          @stopping = true
          @work.signal
        end

        def to_s
          @output.to_s
        end

        # @return [Float]
        def unwritten_s(now)
          since = @writing || @queue.first&.since || (@empty_at if @sinks.any? { |sink| sink.bytesize.positive? })
          since ? [now - since, 0.0].max : 0.0
        end

        # @return [Float]
        def unsynced_s(now)
          [unwritten_s(now), @unsynced_since ? now - @unsynced_since : 0.0].max
        end

        def status(now)
          { output: to_s, bytes: @bytes, written: @written, trouble: @output.trouble,
            unwritten_s: unwritten_s(now).round(3), unsynced_s: unsynced_s(now).round(3) }
        end

        private

        def write
          batches = next_batches
          data = batches.one? ? batches.first.data : batches.map(&:data).join
          clients = batches.map(&:clients).reduce { |all, more| all.merge(more) { |_, one, other| [one, other].max } }
          @writing = batches.first.since
          @output.write(data, clients)
          @unsynced_since ||= @writing
          @writing = nil
          @bytes -= data.bytesize
          @written += data.bytesize
          @put += batches.size
          unless clients.empty?
            sync
            batches.each { |batch| @stored.call(batch.checkpoints) }
          end
          # At once and not by the collector: the next batch gets the same memory, which is a third of the work for a large one.
          data.clear
        end

        def next_batches
          size = 0
          count = @queue.index { |batch| (size += batch.data.bytesize) > MERGED_BYTES } || @queue.size
          @queue.shift([count, 1].max)
        end

        def sync
          @sync_at = nil if due?(@sync_at)
          @output.sync
          @unsynced_since = nil
          @synced = @put
          @finished.signal
        end

        def reopen
          @reopen_at = nil
          @output.reopen
        end

        def due?(position)
          position && position <= @put
        end
      end
    end
  end
end
