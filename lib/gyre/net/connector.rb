# frozen_string_literal: true

# Connects to a name, as RFC 8305 ("Happy Eyeballs") has it: its addresses are tried one after the
# other, the next one as soon as one fails or has not answered for a while, and the first that
# answers is taken. Called by Gyre::Endpoint#connect. With a scheduler other fibers run meanwhile,
# without one the present thread waits. It keeps no socket but the one that it returns.

require "socket"
require "timeout"

module Gyre
  module Net
    # One connection that is to be made.
    class Connector
      # How long an address is waited for before the next one is tried too (RFC 8305, section 5).
      ATTEMPT_DELAY_S = 0.25
      # What is wrong with this machine's own network: an address that another error came from shows
      # more.
      LOCAL = [Errno::EADDRNOTAVAIL, Errno::EAFNOSUPPORT, Errno::ENETUNREACH, Errno::EHOSTUNREACH].freeze

      # @param endpoint [Endpoint] of TCP
      # @param timeout_s [Numeric, nil] for all of it, the name's resolution included; nil: as long
      #   as the system allows
      def initialize(endpoint, timeout_s)
        @endpoint = endpoint
        @timeout_s = timeout_s
        @until_s = timeout_s && (now_s + timeout_s)
        @attempts = {} # Socket => Addrinfo, under way
        @errors = {} # Addrinfo => SystemCallError
      end

      # @return [Socket] connected, without delay of small segments and with keep-alive
      # @raise [SystemCallError] names each address and what it answered; Errno::ETIMEDOUT: the time
      #   is over
      # @raise [SocketError] the name has no address
      def connect
        connected = race(in_turns(resolve)) or raise failure
        connected.setsockopt(:TCP, :NODELAY, true)
        connected.setsockopt(:SOCKET, :KEEPALIVE, true)
        @attempts.delete(connected)
        connected
      ensure
        @attempts.each_key(&:close)
      end

      private

      def now_s
        Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end

      def left_s
        @until_s && [@until_s - now_s, 0].max
      end

      # --- names ---

      # Without a scheduler a thread asks, for not every Ruby's and system's resolver can be
      # interrupted.
      def resolve
        host = @endpoint.host
        return [Addrinfo.tcp(host, @endpoint.port)] if host.match?(/\A[\d.]+\z|:/)
        return in_time { addresses } if Fiber.current_scheduler || !@timeout_s

        thread = Thread.new { addresses }
        thread.report_on_exception = false
        thread.join(left_s) ? thread.value : raise(timeout("its name was not resolved"))
      rescue SocketError => error
        raise error.class, "connect to #{@endpoint}: #{error.message}"
      ensure
        thread&.kill
      end

      def addresses
        Addrinfo.getaddrinfo(@endpoint.resolvable_host, @endpoint.port, nil, :STREAM)
      end

      def in_time
        return yield unless @timeout_s
        raise NotResolved if left_s.zero? # Timeout takes 0 for no limit

        Timeout.timeout(left_s, NotResolved) { yield }
      rescue NotResolved
        raise timeout("its name was not resolved")
      end

      NotResolved = Class.new(StandardError)
      private_constant :NotResolved

      # The families in turns, the resolver's first one first (RFC 8305, section 4).
      def in_turns(addresses)
        first, second = addresses.uniq(&:to_sockaddr).partition { |address| address.afamily == addresses.first.afamily }
        rest = second.drop(first.size)
        first.zip(second).flatten.compact + rest
      end

      # --- addresses ---

      # @return [Socket, nil] nil when none can be connected to, or not in time
      def race(addresses)
        until addresses.empty? && @attempts.empty?
          if (address = addresses.shift)
            connected = attempt(address)
            return connected if connected
            next if @errors.key?(address)
          end
          connected = answered([left_s, (ATTEMPT_DELAY_S unless addresses.empty?)].compact.min)
          return connected if connected || left_s&.zero?
        end
      end

      # @return [Socket, nil] nil: it goes on, or has failed
      def attempt(address)
        socket = Socket.new(address.afamily, :STREAM)
        @attempts[socket] = address
        socket if socket.connect_nonblock(address, exception: false) != :wait_writable
      rescue SystemCallError => error
        failed(socket, address, error)
      end

      # Waits for an answer of any.
      #
      # @return [Socket, nil] nil: none was connected, in this time
      def answered(within_s)
        _, ready = select(@attempts.keys, within_s)
        ready&.find do |socket|
          error = socket.getsockopt(:SOCKET, :ERROR).int
          raise SystemCallError.new(nil, error) unless error.zero?

          socket.remote_address
        rescue Errno::ENOTCONN
          nil # it was reported too early
        rescue SystemCallError => error
          failed(socket, @attempts[socket], error)
        end
      end

      # Ruby 3.1's IO.select asks no scheduler.
      def select(sockets, within_s)
        scheduler = Fiber.current_scheduler
        (scheduler.respond_to?(:io_select) ? scheduler.method(:io_select) : IO.method(:select)).call(nil, sockets, nil, within_s)
      end

      def failed(socket, address, error)
        @errors[address] = error
        @attempts.delete(socket)
        socket&.close
        nil
      end

      # --- errors ---

      # @return [SystemCallError]
      def failure
        return timeout(report(@attempts.values)) if @attempts.any?

        telling = @errors.values.find { |error| !LOCAL.include?(error.class) } || @errors.values.first
        written = @errors.size == 1 && @errors.first.first.ip_address == @endpoint.host
        telling.class.new("connect to #{@endpoint}#{": #{report}" unless written}")
      end

      def timeout(what)
        Errno::ETIMEDOUT.new("connect to #{@endpoint}: #{what} within #{@timeout_s} s")
      end

      # What each address answered, in the order in which they were tried.
      def report(silent = [])
        words = @errors.map { |address, error| "#{address.inspect_sockaddr}: #{error.class.new.message}" }
        (words + silent.map { |address| "#{address.inspect_sockaddr}: no response" }).join(", ")
      end
    end
  end
end
