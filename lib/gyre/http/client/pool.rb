# frozen_string_literal: true

# The connections to one origin of one home (a thread's loop; all threads without one). Client takes
# a connection for a request, and gives it back behind the response. Decides nothing about retries.

require "gyre/clock"
require "gyre/http/client/errors"
require "gyre/http/client/h1_connection"

module Gyre
  module HTTP
    class Client
      class Pool
        def authority = @origin.authority

        def initialize(origin, limits)
          @origin = origin
          @limits = limits
          @pid = Process.pid
          @lock = Thread::Mutex.new
          @changed = Thread::ConditionVariable.new
          @idle = [] # HTTP/1.1, the last one used at the end
          @shared = [] # HTTP/2
          @open = 0
          @waiting = 0
        end

        # Returns a connection with room for a request; waits for one beyond the limit.
        def take(until_s)
          renew if @pid != Process.pid
          kept || @lock.synchronize { wait(until_s) } || connect(until_s)
        end

        # Takes back a connection whose exchange is over or cancelled.
        def give(connection)
          return if connection.shared? && !connection.closed?

          if connection.capacity.zero? || @pid != Process.pid
            drop(connection)
          else
            @idle.push(connection)
          end
          signal
        end

        def close
          [@idle, @shared].each { |list| drop(list.pop) until list.empty? }
        end

        private

        # GVL: each step is atomic. A waiter counts itself before it looks, so no wake-up is lost.
        def kept
          while (connection = @idle.pop)
            return connection if connection.ready?

            drop(connection)
          end
          @shared.find { |shared| shared.capacity.positive? } unless @shared.empty?
        end

        # Returns a connection, or nil with a place for a new one.
        def wait(until_s)
          at = [Clock.now + @limits.pool_timeout_s, until_s].compact.min if @limits.pool_timeout_s || until_s
          @waiting += 1
          loop do
            connection = kept
            return connection if connection
            return (@open += 1) && nil if @open < @limits.connections_limit

            left = at && (at - Clock.now)
            raise Gyre::TimeoutError, "no connection became free: all #{@open} are in use (connections_limit)" if left && left <= 0

            @changed.wait(@lock, left)
          end
        ensure
          @waiting -= 1
        end

        def connect(until_s)
          connection = @origin.connect(until_s)
          @shared << connection if connection.shared?
          connection
        ensure
          leave unless connection
        end

        def drop(connection)
          connection.close
          @shared.delete(connection)
          leave
        end

        def leave
          @open -= 1
          signal
        end

        def signal
          return if @waiting.zero?
          return @changed.signal if @lock.owned?

          @lock.synchronize { @changed.signal }
        end

        # In a forked child: the parent's connections are the parent's.
        def renew
          @pid = Process.pid
          @lock = Thread::Mutex.new
          @waiting = 0
          close
          @open = 0
        end
      end
    end
  end
end
