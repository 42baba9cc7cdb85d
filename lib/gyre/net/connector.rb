# frozen_string_literal: true

# Tries a host's addresses in order (RFC 8305, "Happy Eyeballs") and returns the first socket that
# connects. Tries the next address when an attempt fails or takes long. Closes all other sockets at
# the end. Called by Gyre::Endpoint#connect. Other fibers run while it waits if there is a
# scheduler; otherwise the thread blocks.

require "io/wait"
require "socket"
require "timeout"
require "gyre/scheduler/host_names"

module Gyre
  module Net
    # Waits like IO.select. Calls the scheduler itself, because IO.select of Ruby 3.1 does not.
    def self.select(readable, writable, within_s)
      scheduler = Fiber.current_scheduler
      (scheduler.respond_to?(:io_select) ? scheduler.method(:io_select) : IO.method(:select)).call(readable, writable, nil, within_s)
    end

    class Connector
      # Maximum seconds between the starts of two attempts (RFC 8305, section 5).
      ATTEMPT_DELAY_S = 0.25
      # Raised if no address passes the caller's filter.
      NotAllowed = Class.new(SocketError)
      IPV4_BYTES = Socket.sockaddr_in(0, "0.0.0.0").bytesize # an IPv6 sockaddr has more
      # Errors of this machine's own network. {#failure} prefers any other error to these.
      LOCAL = [Errno::EADDRNOTAVAIL, Errno::EAFNOSUPPORT, Errno::ENETUNREACH, Errno::EHOSTUNREACH].freeze

      # `timeout_s` includes name resolution; nil: the system's limits. `only` filters Addrinfos.
      # `addresses`: packed, if the name is resolved already.
      def initialize(endpoint, timeout_s, only = nil, addresses: nil)
        @endpoint = endpoint
        @addresses = addresses
        @only = only
        @timeout_s = timeout_s
        @until_s = timeout_s && (now_s + timeout_s)
        # Compares by identity, because Object#hash costs memory for an object_id.
        @attempts = {}.compare_by_identity # Socket => address, for each pending attempt
        @errors = {} # address => SystemCallError
      end

      # Raises one address's error, whose message lists each address with its error. Raises
      # Errno::ETIMEDOUT after the timeout, and SocketError if the host has no permitted address.
      def connect
        socket do |connected|
          connected.setsockopt(:TCP, :NODELAY, true)
          connected.setsockopt(:SOCKET, :KEEPALIVE, true)
        end
      end

      # Yields the connected socket, and returns it with Ruby's own options otherwise.
      def socket
        connected = race(in_turns(allowed(resolve))) or raise failure
        yield connected if block_given?
        @attempts.delete(connected)
        connected
      ensure
        @attempts.each_key(&:close)
      end

      private

      def now_s = Process.clock_gettime(Process::CLOCK_MONOTONIC)

      def left_s = @until_s && [@until_s - now_s, 0].max

      # Returns packed addresses, because an Addrinfo takes 2 KB until it is collected. If there is
      # a timeout but no scheduler, resolves in a new thread: not every resolver can be interrupted.
      def resolve
        return @addresses if @addresses

        host = @endpoint.host
        return [Socket.sockaddr_in(@endpoint.port, host)] if host.match?(/\A[\d.]+\z|:/)
        return in_time { addresses } if Fiber.current_scheduler || !@timeout_s

        thread = Thread.new { addresses }
        thread.report_on_exception = false
        thread.join(left_s) ? thread.value : raise(timeout("its name was not resolved"))
      rescue SocketError => error
        raise error.class, "connect to #{@endpoint}: #{error.message}"
      ensure
        thread&.kill
      end

      # If there is a scheduler, getaddrinfo calls its hook `address_resolve`, which asks HostNames.
      def addresses
        host = @endpoint.resolvable_host
        found = HostNames.resolve(host) unless Fiber.current_scheduler
        return Addrinfo.getaddrinfo(host, @endpoint.port, nil, :STREAM).map(&:to_sockaddr) unless found
        raise SocketError, "getaddrinfo: Name or service not known" if found.empty?

        found.map { |address| Socket.sockaddr_in(@endpoint.port, address) }
      end

      def in_time
        return yield unless @timeout_s
        raise NotResolved if left_s.zero? # Timeout takes 0 for no limit

        Timeout.timeout(left_s, NotResolved) { yield }
      rescue NotResolved
        raise timeout("its name was not resolved")
      end

      NotResolved = Class.new(StandardError)

      def allowed(addresses)
        return addresses unless @only

        infos = addresses.map { |address| Addrinfo.new(address, nil, :STREAM) }
        left = infos.select(&@only)
        raise NotAllowed, "connect to #{@endpoint}: #{infos.map(&:ip_address).uniq.join(", ")} is not allowed" if left.empty?

        left.map(&:to_sockaddr)
      end

      # Alternates IPv4 and IPv6, beginning with the first address's family (RFC 8305, section 4).
      def in_turns(addresses)
        return addresses if addresses.one?

        first, second = addresses.uniq.partition { |address| address.bytesize == addresses.first.bytesize }
        rest = second.drop(first.size)
        first.zip(second).flatten.compact + rest
      end

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

      # Returns the socket if it is connected; nil if the attempt is pending or failed.
      def attempt(address)
        socket = Socket.new(address.bytesize == IPV4_BYTES ? :INET : :INET6, :STREAM)
        @attempts[socket] = address
        socket if socket.connect_nonblock(address, exception: false) != :wait_writable
      rescue SystemCallError => error
        failed(socket, address, error)
      end

      # Waits up to `within_s` until an attempt ends. Returns the connected socket, or nil.
      def answered(within_s)
        sockets = @attempts.keys
        ready = sockets.one? ? sockets.first.wait_writable(within_s) && sockets : Net.select(nil, sockets, within_s)&.at(1)
        ready&.find do |socket|
          error = socket.getsockopt(:SOCKET, :ERROR).int
          raise SystemCallError.new(nil, error) unless error.zero?

          socket.getpeername
        rescue Errno::ENOTCONN
          nil # select has reported the socket too early
        rescue SystemCallError => error
          failed(socket, @attempts[socket], error)
        end
      end

      def failed(socket, address, error)
        @errors[address] = error
        @attempts.delete(socket)
        socket&.close
        nil
      end

      def failure
        return timeout(report(@attempts.values)) if @attempts.any?

        telling = @errors.values.find { |error| !LOCAL.include?(error.class) } || @errors.values.first
        written = @errors.size == 1 && Addrinfo.new(@errors.first.first).ip_address == @endpoint.host
        telling.class.new("connect to #{@endpoint}#{": #{report}" unless written}")
      end

      def timeout(what) = Errno::ETIMEDOUT.new("connect to #{@endpoint}: #{what} within #{@timeout_s.round(3)} s")

      # Lists each address with its error or "no response".
      def report(silent = [])
        words = @errors.map { |address, error| [address, error.class.new.message] } + silent.map { |address| [address, "no response"] }
        words.map { |address, word| "#{Addrinfo.new(address).inspect_sockaddr}: #{word}" }.join(", ")
      end
    end
  end
end
