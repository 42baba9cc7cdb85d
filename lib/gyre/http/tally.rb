# frozen_string_literal: true

# Counts the requests of all clients of this process, for /metrics and /status
# (Gyre::Web::Snapshot). The first snapshot starts the counting, which costs time.

require "gyre/loop"

Gyre::Loop.define_native(:http)

module Gyre
  module HTTP
    # Used by clients and by snapshots of a server, which does not load the client.
    module Tally
      KINDS = %w[1xx 2xx 3xx 4xx 5xx error].freeze
      private_constant :KINDS
      @lock = Thread::Mutex.new

      class << self
        # Only the main Ractor's requests count.
        def counting? = @counting && Ractor.current.equal?(Ractor.main)

        # Returns values for JSON: responses by status class, opened connections, and durations in
        # the format of Gyre::Web::Snapshot.
        def snapshot
          @lock.synchronize do
            start unless @counting
            { "responses" => @responses.dup, "opened" => @opened, "durations" => { "counts" => @durations.dup, "sum_s" => @sum_s } }
          end
        end

        def add(report)
          @lock.synchronize do
            @responses[report.status ? "#{report.status / 100}xx" : "error"] += 1
            @opened += 1 if report.reused == false
            @durations[@bounds_s.index { |bound_s| report.total_s <= bound_s } || -1] += 1
            @sum_s += report.total_s
          end
        end

        private

        def start
          @bounds_s = HTTP.const_defined?(:NativeAcceptor) ? NativeAcceptor.duration_bounds : []
          @responses = Hash.new(0).update(KINDS.to_h { |kind| [kind, 0] })
          @durations = Array.new(@bounds_s.size + 1, 0)
          @opened = 0
          @sum_s = 0.0
          @counting = true
        end
      end
    end
  end
end
