# frozen_string_literal: true

# Keeps connections to one origin, for one thread's loop or for all threads that have no loop. A
# connection is taken for each request and given back afterwards. Decides nothing about retries.

require "gyre/clock"
require "gyre/http/client/errors"

module Gyre
  module HTTP
    class Client
      class Pool
        # No connection became free in time.
        Exhausted = Class.new(Gyre::TimeoutError)
        LOST_CHECK_S = 1
        private_constant :LOST_CHECK_S

        attr_reader :origin, :fields

        # `fields`: headers of each request.
        def initialize(origin, fields)
          @origin = origin
          @fields = { **origin.fields, **fields }.compact.freeze
          @lost = []
          renew
        end

        # Returns a connection for a request; waits if all are busy. If the request may be repeated
        # (`safe`), the check that the connection is open may be 1 ms old.
        def take(until_s, safe)
          renew if @pid != Process.pid
          kept(safe) || @lock.synchronize { wait(until_s) } || connect(until_s)
        end

        def give(connection)
          return connection.close if @pid != Process.pid
          return connection.closed? && connection.idle? ? drop(connection) : signal if connection.shared?
          return drop(connection) unless connection.rest

          @idle.push(connection)
          drop(@idle.shift) if @idle.size > 1 && !@idle.first.ready?(true)
          signal
        end

        # Called when the connection has left HTTP.
        def detach = leave

        # Called by a finalizer, which must not wait.
        def lose(connection, exchange) = @lost << [connection, exchange]

        def close
          reap
          drop(@idle.pop) until @idle.empty?
          drop(@shared.last) until @shared.empty?
        end

        private

        # Each step is atomic under the GVL. A waiter increments @waiting before it looks for a
        # connection; otherwise it could miss a wake-up.
        def kept(safe = false)
          reap unless @lost.empty?
          while (connection = @idle.pop)
            return connection if connection.ready?(safe)

            drop(connection)
          end
          usable_shared unless @shared.empty?
        end

        def usable_shared
          @shared.dup.each { |connection| drop(connection) if connection.closed? && connection.idle? }
          @shared.find { |connection| connection.capacity.positive? }
        end

        # Returns a connection. Returns nil if the caller must make a connection, which is then
        # counted. While a connection that may be shared is being made, other callers wait for it
        # and get its failure.
        def wait(until_s)
          limits = @origin.limits
          at = [limits.pool_timeout_s && (Clock.now + limits.pool_timeout_s), until_s].compact.min
          failure = @failure
          @waiting += 1
          loop do
            connection = kept
            return connection if connection
            raise @failure.dup unless @failure.equal?(failure)

            shares = @connecting.positive? && @origin.perhaps_shared?
            return (@open += 1) && nil if @open < limits.connections_limit && !shares

            left = at && (at - Clock.now)
            expire(shares) if left && left <= 0
            @changed.wait(@lock, [left, LOST_CHECK_S].compact.min)
          end
        ensure
          @waiting -= 1
        end

        def expire(shares)
          raise Gyre::TimeoutError, "the connection that others have begun is not made yet" if shares

          raise Exhausted, "all #{@open} connections are in use: raise connections_limit or pool_timeout_s"
        end

        def connect(until_s)
          @connecting += 1
          connection = @origin.connect(until_s)
          @shared << connection if connection.shared?
          connection
        rescue *FAILURES => error
          own = error.is_a?(Gyre::TimeoutError) && (error.deadline || (until_s && Clock.now >= until_s))
          @failure = error if @origin.perhaps_shared? && !own
          raise
        ensure
          @connecting -= 1
          leave unless connection
          signal(all: true)
        end

        def reap
          while (connection, exchange = @lost.shift)
            exchange.cancel
            give(connection)
          end
        end

        # Closes a connection. Does nothing if it is shared and was dropped before: the end of its
        # last exchange drops it again.
        def drop(connection)
          return if connection.shared? && !@shared.delete(connection)

          connection.close
          leave
        end

        def leave
          @open -= 1
          signal
        end

        def signal(all: false)
          return if @waiting.zero?
          return @lock.synchronize { signal(all: all) } unless @lock.owned?

          all ? @changed.broadcast : @changed.signal
        end

        # Empties the pool. In a forked child this closes the copies of the parent's connections.
        def renew
          [*@idle, *@shared].each(&:close)
          @pid = Process.pid
          @lock = Thread::Mutex.new
          @changed = Thread::ConditionVariable.new
          @idle = [] # HTTP/1.1 connections; the connection used last is at the end
          @shared = [] # HTTP/2 connections
          @open = @waiting = @connecting = 0
          @failure = nil # error of the last connection that others waited for
        end
      end
    end
  end
end
