# frozen_string_literal: true

# Keeps connections to one origin, for one thread's loop or for all threads that have no loop. A
# connection is taken for each request and given back afterwards. Decides nothing about retries.

require "gyre/weak_set"
require "gyre/http/client/errors"

module Gyre
  module HTTP
    class Client
      class Pool
        # No connection became free in time.
        Exhausted = Class.new(Gyre::TimeoutError)
        RECHECK_S = 1
        private_constant :RECHECK_S

        # `last_use`: a number that grows with each use of a pool of this home.
        attr_reader :origin, :fields, :last_use

        # `fields`: headers of each request.
        def initialize(origin, fields, home)
          @origin = origin
          @fields = { **origin.fields, **fields }.compact.freeze
          @home = home
          @last_use = 0
          renew
        end

        # Gives the request a connection, and returns it; waits if all are busy. If the request may
        # be repeated (`safe`), the check that the connection is open may be 1 ms old. An exception,
        # which a thread may get anywhere, loses no connection: the request or the pool has it.
        def take(request, safe)
          renew if @pid != Process.pid
          kept(request, safe) || @lock.synchronize { wait(request) } || connect(request)
        end

        # Takes the connection back. May be called again after an exception.
        def give(request)
          connection = request.connection or return
          return request.release&.close if @pid != Process.pid

          @last_use = @home.used
          if connection.shared?
            request.release
            connection.idle? && (connection.closed? || @retired) ? drop(connection) : signal
          elsif @retired || !connection.rest
            drop(connection)
            request.release
          else
            (connection = request.release) && @idle.push(connection) # another thread may have given it
            signal
          end
        end

        # Called when the connection has left HTTP.
        def detach(connection)
          @places.delete(connection)
          freed
        end

        def close
          nil while drop_idle
          @shared.dup.each { |connection| drop(connection) }
        end

        # Returns the number of idle connections.
        def idle = @idle.size + @shared.count(&:idle?)

        # Ends the connection that has been idle for longest. Returns false if there is none.
        def drop_idle
          connection = @idle.shift || @shared.find(&:idle?) or return false
          drop(connection)
          true
        end

        # Ends connections that have been idle for too long, and those that the server has ended.
        def sweep
          return renew if @pid != Process.pid

          @idle.size.times do
            connection = @idle.shift or break
            connection.ready?(false) ? @idle.push(connection) : drop(connection)
          end
          @shared.dup.each do |connection|
            connection.capacity # receives an end
            drop(connection) if connection.idle? && (connection.closed? || connection.rested?)
          end
        end

        # Returns true if the pool has no connections. It then keeps none, because its home forgets
        # it.
        def retire = @retired = @idle.empty? && @shared.empty? && @waiting.zero? && open.none?

        # Returns the open connections, and the requests that are connecting. Each takes a place of
        # connections_limit. The collector frees the place of a connection or request that an
        # exception, a kill or a forgotten response has lost.
        def open = @places.select { |owner| owner.is_a?(Request) ? owner.connecting : !owner.transport.closed? }

        private

        # A waiter increments @waiting before it looks for a connection; otherwise it could miss a
        # wake-up.
        def kept(request, safe = false)
          while (connection = request.connection = @idle.pop)
            return connection if connection.ready?(safe)

            drop(connection)
          end
          request.connection = usable_shared unless @shared.empty?
        end

        def usable_shared
          @shared.dup.each { |connection| drop(connection) if connection.closed? && connection.idle? }
          @shared.find { |connection| connection.capacity.positive? }
        end

        # Returns a connection. Returns nil after taking a place, and the caller connects. While a
        # connection that may be shared is being made, other callers wait for it and get its
        # failure. Asks the collector for lost places before it fails.
        def wait(request)
          limits = @origin.limits
          at = [limits.pool_timeout_s && (Clock.now + limits.pool_timeout_s), request.until_s].compact.min
          failure = @failure
          asked = false
          @waiting += 1
          loop do
            connection = kept(request)
            return connection if connection
            raise @failure.dup unless @failure.equal?(failure)

            shares = @origin.perhaps_shared? && open.any?(Request)
            return take_place(request) if !shares && (room?(limits.connections_limit) || drop_useless)

            left = at && (at - Clock.now)
            if left && left <= 0
              expire(shares) if asked
              asked = true
              @full_s = 0
              Thread.new { GC.start }.join # this stack may hold stale references, above its top
            else
              @changed.wait(@lock, [left, RECHECK_S].compact.min)
            end
          end
        ensure
          @waiting -= 1
        end

        # Looks again when a place was given back, or after RECHECK_S: it may have been lost.
        def room?(limit)
          return false if Clock.now < @full_s

          @full_s = Clock.now + RECHECK_S # first: a place given back meanwhile must be seen
          room = @places.size < limit || open.size < limit
          @full_s = 0 if room
          room
        end

        # Drops closed connections now and then.
        def take_place(request)
          limit = @origin.limits.connections_limit
          @places = WeakSet.new(open) if @places.size > (2 * limit) + 8
          request.connecting = true
          @places.add(request)
          nil
        end

        # Ends an idle HTTP/2 connection that takes no requests, such as a silent one.
        def drop_useless
          connection = @shared.find { |shared| shared.idle? && shared.capacity.zero? }
          connection && (drop(connection) || true)
        end

        def expire(shares)
          raise Gyre::TimeoutError, "the connection that others have begun is not made yet" if shares

          raise Exhausted, "all #{open.size} connections are in use: raise connections_limit or pool_timeout_s"
        end

        def connect(request)
          @home.make_room
          request.connection = connection = @origin.connect(request.until_s)
          @places.add(connection)
          @shared << connection if connection.shared?
          connection
        rescue *FAILURES => error
          own = error.is_a?(Gyre::TimeoutError) && (error.deadline || (request.until_s && Clock.now >= request.until_s))
          @failure = error if @origin.perhaps_shared? && !own
          raise
        ensure
          request.connecting = false
          @places.delete(request)
          freed(all: true)
        end

        # Closes a connection. Does nothing if it is shared and was dropped before: the end of its
        # last exchange drops it again.
        def drop(connection)
          return if connection.shared? && !@shared.delete(connection)

          connection.close
          freed
        end

        def freed(all: false)
          @full_s = 0
          signal(all: all)
        end

        def signal(all: false)
          return if @waiting.zero?
          return @lock.synchronize { signal(all: all) } unless @lock.owned?

          all ? @changed.broadcast : @changed.signal
        end

        # Empties the pool. In a forked child this closes the copies of the parent's connections.
        def renew
          [*@idle, *@shared].each(&:close)
          @home.forked if @pid
          @pid = Process.pid
          @lock = Thread::Mutex.new
          @changed = Thread::ConditionVariable.new
          @idle = [] # HTTP/1.1 connections; the connection used last is at the end
          @shared = [] # HTTP/2 connections
          @places = WeakSet.new # of connections and requests
          @waiting = 0
          @full_s = 0 # until when there is surely no room
          @failure = nil # error of the last connection that others waited for
        end
      end
    end
  end
end
