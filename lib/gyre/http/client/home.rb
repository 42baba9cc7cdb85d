# frozen_string_literal: true

# The pools of a client on one loop, or in all threads that have no loop. Ends idle connections: a
# loop's by a timer, those of threads at the next use of any client. Called by Client and Pool.

require "gyre/clock"
require "gyre/weak_set"

module Gyre
  module HTTP
    class Client
      class Home
        SWEEP_S = (0.05..1)
        private_constant :SWEEP_S

        # Returns this Ractor's homes of threads without a loop.
        def self.of_threads = Ractor.current[:gyre_http_client_homes] ||= WeakSet.new

        def initialize(scheduler, limits)
          @scheduler = scheduler if scheduler.respond_to?(:call_later)
          @limit = limits.idle_connections_limit
          @interval_s = (limits.keep_alive_timeout_s || SWEEP_S.max).clamp(SWEEP_S)
          @pools = {}
          @lock = Thread::Mutex.new
          @uses = @next_s = 0
          @armed = false # whether the loop has the timer
          Home.of_threads.add(self) unless scheduler
        end

        def [](key) = @pools[key]
        def add(key) = @lock.synchronize { @pools[key] ||= yield }
        def pools = @pools.values # others may add pools meanwhile
        def close = pools.each(&:close)

        # Ends the connections with the longest idle times, until `more` have room.
        def make_room(more = 1)
          pools = self.pools
          excess = pools.sum(&:idle) - @limit + more
          return unless excess.positive?

          pools.sort_by(&:last_use).each { |pool| excess -= 1 while excess.positive? && pool.drop_idle }
        end

        # Called when a connection is given back. Returns the number of this use.
        def used
          if @scheduler
            arm unless @armed
          else
            now_s = Clock.now
            (Home.of_threads.to_a | [self]).each { |home| home.sweep(now_s) } if now_s >= @next_s
          end
          @uses += 1
        end

        # Ends connections that have been idle for too long, that the server has ended, or that are
        # too many. Forgets pools without connections, except the base's.
        def sweep(now_s)
          @next_s = now_s + @interval_s
          pools.each(&:sweep)
          make_room(0)
          @lock.synchronize { @pools.delete_if { |key, pool| key != :base && pool.retire } }
        end

        # Called by a pool in a forked child, whose loop has no timers.
        def forked = @armed = false

        # Called by the timer.
        def call
          @armed = false
          sweep(Clock.now)
          arm if pools.any? { |pool| pool.idle.positive? }
        end

        private

        def arm = @armed = !@scheduler.closed? && @scheduler.call_later(@interval_s, self)
      end
    end
  end
end
