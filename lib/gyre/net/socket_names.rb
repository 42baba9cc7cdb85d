# frozen_string_literal: true

# TCPSocket.new and getaddrinfo in a fiber of a Gyre::Scheduler, as Net::HTTP and most clients call
# them. Ruby's own TCPSocket.new stops all fibers while it resolves a name (since 3.4), or tries one
# address after the other; getaddrinfo by the scheduler's hook knows no service names and drops the
# zone of an IPv6 address.

require "gyre/net/connector"
require "gyre/scheduler"

module Gyre
  module Net
    module SocketNames
      LITERAL = /:|\A[\d.]+\z/.freeze
      TIMEOUTS = [:connect_timeout, :resolv_timeout, *(:open_timeout if RUBY_VERSION >= "4.0")].freeze
      # What Ruby raises when the time for a connection is over.
      Late = RUBY_VERSION < "4.0" ? Errno::ETIMEDOUT : IO::TimeoutError
      private_constant :LITERAL, :TIMEOUTS, :Late

      Named = Struct.new(:host, :port) do
        def to_s = "#{host.inspect} port #{port}"
      end
      private_constant :Named

      class << self
        def in_fiber? = Fiber.current_scheduler.is_a?(Scheduler)

        # Yields the port's number if the service has one. Addresses that the hook would spoil go to
        # the system, which need not ask anyone for them.
        def ask(host, service)
          return yield(service) unless in_fiber?

          literal = host.is_a?(String) && host.match?(LITERAL)
          return Fiber.new(blocking: true) { yield service }.resume if literal && (host.include?("%") || name?(service))

          yield port(service)
        end

        # Returns a service's number, other values as they are.
        def port(service)
          name?(service) ? Socket.getservbyname(service) : service
        rescue SocketError
          service # Ruby's own error follows
        end

        # True if the addresses of a host are to be tried as Ruby itself does outside of fibers.
        def races?(arguments, options)
          host, service, *local = arguments
          in_fiber? && host.is_a?(String) && !host.empty? && service && local.none? && (options.keys - TIMEOUTS).empty?
        end

        # Returns the descriptor of the address that connects first.
        def connect(host, service, connect_timeout: nil, resolv_timeout: nil, open_timeout: nil)
          limit_s = open_timeout || (connect_timeout && (connect_timeout + (resolv_timeout || 0)))
          addresses = Addrinfo.getaddrinfo(host, service, nil, :STREAM, timeout: resolv_timeout || limit_s).map(&:to_sockaddr)
          socket = Connector.new(Named.new(host, service), limit_s, addresses: addresses).socket
          socket.autoclose = false
          socket.fileno
        rescue Errno::ETIMEDOUT => error
          raise unless limit_s

          raise Late, error.message.delete_prefix("#{Errno::ETIMEDOUT.new.message} - ")
        end

        def lend(socket)
          yield socket
        ensure
          socket.close
        end

        private

        def name?(service) = service.is_a?(String) && service.match?(/\A[a-z]/i)
      end

      # Aliases, as programs save and replace Addrinfo.getaddrinfo, which a prepended module would
      # turn into a circle.
      class << Addrinfo
        %i[getaddrinfo tcp udp].each { |name| alias_method :"gyre_system_#{name}", name }

        def getaddrinfo(host, service = nil, *rest, **options)
          SocketNames.ask(host, service) { |port| gyre_system_getaddrinfo(host, port, *rest, **options) }
        end

        def tcp(host, service) = SocketNames.ask(host, service) { |port| gyre_system_tcp(host, port) }

        def udp(host, service) = SocketNames.ask(host, service) { |port| gyre_system_udp(host, port) }
      end

      module Packed
        def sockaddr_in(service, host) = SocketNames.ask(host, service) { |port| super(port, host) }

        def pack_sockaddr_in(service, host) = SocketNames.ask(host, service) { |port| super(port, host) }
      end

      # A subclass with an initializer of its own connects in {InFiber}.
      module Racing
        def new(*arguments, **options)
          return super unless equal?(TCPSocket) && SocketNames.races?(arguments, options)

          for_fd(SocketNames.connect(*arguments.first(2), **options))
        end

        def open(*arguments, **options, &block)
          return super unless equal?(TCPSocket)

          socket = new(*arguments, **options)
          block ? SocketNames.lend(socket, &block) : socket
        end
      end

      # Before 3.4 Ruby's own Socket.tcp tries one address after the other, and so does Net::HTTP.
      module RacingTCP
        def tcp(*arguments, **options, &block)
          return super unless SocketNames.races?(arguments, options)

          socket = for_fd(SocketNames.connect(*arguments.first(2), **options))
          block ? SocketNames.lend(socket, &block) : socket
        end
      end

      # Tries one address after the other by hooks. Does not change calls that pass fast_fallback.
      module InFiber
        def initialize(host, service = nil, *local, **options)
          if SocketNames.in_fiber?
            options[:fast_fallback] = false if Socket.respond_to?(:tcp_fast_fallback) && !options.key?(:fast_fallback)
            service = SocketNames.port(service)
          end
          super(host, service, *local, **options)
        end
      end

      Socket.singleton_class.prepend(Packed)
      Socket.singleton_class.prepend(RacingTCP) if RUBY_VERSION < "3.4"
      TCPSocket.singleton_class.prepend(Racing)
      TCPSocket.prepend(InFiber)
    end
  end
end
