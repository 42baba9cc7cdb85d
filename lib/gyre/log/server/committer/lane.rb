# frozen_string_literal: true

# One output and the task that writes to it: takes all that is in the sink when a pass has asked for
# it and the output is free, writes it and syncs it. Made by the Committer. Only `run` waits for the
# output.

require "gyre/clock"
require "gyre/sync/condition"

module Gyre
  module Log
    class Committer
      # The way from a sink to its output.
      class Lane
        # @return [Integer] bytes taken and not yet written
        attr_reader :bytes

        # @param sink [Ingest::Sink]
        # @param output [Output]
        # @param stored [#call] is given the sink and {client id => sequence number} of what is
        #   stored
        # @yield when a batch was written
        def initialize(sink, output, stored, &written)
          @sink = sink
          @output = output
          @stored = stored
          @when_written = written
          @data = String.new(encoding: Encoding::BINARY) # one batch after the other, in the same memory
          @bytes = @written = 0
          @empty_at = Clock.now # when the sink was seen empty last
          @unsynced_since = @writing = nil
          @asked = @put = @synced = 0 # passes so far: asked for, with all that they were to write written, durable
          @sync_at = @reopen_after = nil # after which of them
          @orders = @reopened = 0 # requests to reopen the output; those done
          @kept = false # the output could not be reopened the last time
          @stopping = false
          @work = Condition.new
          @finished = Condition.new
        end

        # Has what is in the sink now written.
        def order_write
          @asked += 1
          @empty_at = Clock.now if @sink.bytesize.zero?
          @work.signal
        end

        # Has everything written that the passes until now were to write, and synced.
        # @return [Integer] a ticket for {#await}
        def order_sync
          @sync_at = @asked if @synced < @asked
          @work.signal
          @asked
        end

        # @param ticket [Integer]
        # @param deadline [Float, nil]
        # @return [Boolean] whether it is done, or nothing waits for an output that stands still
        def await(ticket, deadline) = wait_until(deadline) { @synced >= ticket || idle? }

        # Has the output reopened after what the passes until now were to write.
        # @return [Integer] a ticket for {#await_reopened}
        def order_reopen
          @orders += 1
          @reopen_after = @asked
          @output.reopen_soon if @writing && @output.respond_to?(:reopen_soon)
          @work.signal
          @orders
        end

        # @param ticket [Integer]
        # @param deadline [Float]
        # @return [Boolean] whether it is done: what was written before is durable, and nothing goes
        #   to the former file any more
        def await_reopened(ticket, deadline) = wait_until(deadline) { @reopened >= ticket } && !@kept

        # See Output.
        def rest(timeout_s) = @output.rest(timeout_s)

        # See Output.
        def resume = @output.resume

        # The lane's task.
        def run
          @output.prepare
          until @stopping
            if due?(@sync_at) then sync
            elsif due?(@reopen_after) then reopen
            elsif @put < @asked then take
            else @work.wait
            end
          end
        end

        def stop
          @stopping = true
          @work.signal
        end

        def to_s = @output.to_s

        # @return [Float]
        def unwritten_s(now)
          since = @writing || (@empty_at if @sink.bytesize.positive?)
          since ? [now - since, 0.0].max : 0.0
        end

        # @return [Float]
        def unsynced_s(now) = [unwritten_s(now), @unsynced_since ? now - @unsynced_since : 0.0].max

        # @return [Integer] bytes that wait while the output stands still
        def stuck_bytes = @output.trouble || @sink.full? ? @bytes + @sink.bytesize : 0

        # @return [String, nil] why it cannot write what it has
        def trouble
          "#{self}: #{@output.trouble}" if @output.trouble && !idle?
        end

        # @return [Hash{Symbol => Object}]
        def status(now)
          { output: to_s, bytes: @bytes + @sink.bytesize, written: @written, dropped: @sink.dropped, **@output.status,
            unwritten_s: unwritten_s(now).round(3), unsynced_s: unsynced_s(now).round(3) }
        end

        private

        def take
          asked = @asked
          _, clients = @sink.take(@data)
          write(clients) if clients
          @put = asked
          return if clients.nil? || clients.empty?

          sync
          @stored.call(@sink, clients)
        end

        def write(clients)
          @writing, @empty_at = @empty_at, Clock.now
          @bytes = @data.bytesize
          @output.write(@data, clients)
          @unsynced_since ||= @writing
          @writing = nil
          @written += @bytes
          @bytes = 0
          @sink.written
          @when_written&.call
        end

        def sync
          @sync_at = nil if due?(@sync_at)
          put = @put
          @output.sync if @unsynced_since
          @unsynced_since = nil
          @synced = put
          @finished.signal
        end

        # Nothing waits, but the output is not ready.
        def idle? = @output.trouble && @bytes.zero? && @sink.bytesize.zero? && @unsynced_since.nil?

        def reopen
          @reopen_after = nil
          orders = @orders
          @kept = @output.reopen == false
          @reopened = orders
          @finished.signal
        end

        def wait_until(deadline)
          until yield
            left = deadline && (deadline - Clock.now)
            return false if left && left <= 0

            @finished.wait(timeout: left)
          end
          true
        end

        def due?(position) = position && position <= @put
      end
    end
  end
end
