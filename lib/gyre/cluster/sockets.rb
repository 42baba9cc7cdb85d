# frozen_string_literal: true

# Binds a server process's listening sockets, or inherits them from systemd, a former program (USR2)
# or the supervisor. Made by Gyre::CLI::Serve and its parts. Accepts no connection.

require "gyre/errors"
require "gyre/net/endpoint"

module Gyre
  module Cluster
    class Sockets
      # An inherited socket. `origin`: the setting that it was bound for (nil: unknown); `owned`:
      # only this process has it, and removes its file; `given`: a service manager passed it.
      Inherited = Struct.new(:descriptor, :origin, :host, :port, :path, :owned, :given) do
        # True if the socket is bound to an address of the endpoint, in any spelling.
        def for?(endpoint)
          return named?(endpoint.path) if path || endpoint.path
          return true if origin == endpoint.to_s # also if the kernel chose the port

          port == endpoint.port && Inherited.meant(endpoint).include?(host)
        end

        # True if the socket covers all addresses of the endpoint.
        def whole?(endpoint) = !path.nil? || origin.nil? || origin == endpoint.to_s

        # Returns the addresses at which the socket accepts connections.
        def takes
          host == "::" && !Socket.for_fd(descriptor).tap { |socket| socket.autoclose = false }.getsockopt(:IPV6, :V6ONLY).bool ? WILDCARDS : [host]
        end

        # Returns an endpoint made of the bound address.
        def endpoint = path ? Endpoint.new(:unix, path: path) : Endpoint.new(:tcp, host: host, port: port)

        def close
          Socket.for_fd(descriptor).close
          File.unlink(path) if owned && path && !path.start_with?("@")
        rescue SystemCallError
          nil # its file has gone, or may not be removed
        end

        # Returns an endpoint's addresses; `::` includes IPv4.
        def self.meant(endpoint) = endpoint.host == "::" ? WILDCARDS : endpoint.addresses

        private

        # Also compares paths, because the path may lead to a new file now.
        def named?(other)
          return path == other if [path, other].any? { |each| each.nil? || each.start_with?("@") }

          File.identical?(path, other) || path == File.expand_path(other)
        end
      end
      WILDCARDS = %w[0.0.0.0 ::].freeze

      # The first descriptor that systemd passes (sd_listen_fds(3)).
      FIRST_DESCRIPTOR = 3

      # Returns systemd's sockets; none if they are meant for another process.
      def self.activated(environment = ENV)
        return [] unless environment["LISTEN_PID"] == Process.pid.to_s

        Array.new(environment["LISTEN_FDS"].to_i) { |number| describe(FIRST_DESCRIPTOR + number) }
      end

      # Raises ArgumentError if the descriptor is not a socket.
      def self.describe(descriptor)
        socket = Socket.for_fd(descriptor)
        socket.autoclose = false
        address = socket.local_address
        return Inherited.new(descriptor, nil, nil, nil, address.unix_path.sub(/\A\0/, "@"), false, true) if address.unix?

        Inherited.new(descriptor, nil, address.ip_address, address.ip_port, nil, false, true)
      rescue SystemCallError, SocketError => error
        raise ArgumentError, "descriptor #{descriptor} from systemd is not a listening socket: #{error.message}"
      end

      # Hides inherited sockets from child programs.
      def self.keep_private(descriptors) = descriptors.each { |descriptor| IO.for_fd(descriptor, autoclose: false).close_on_exec = true }

      attr_reader :listeners

      # `making` gets the path of a Unix socket (nil for TCP) and a block that binds the socket.
      def initialize(making: ->(_path, &bind) { bind.call })
        @making = making
        @listeners = []
        @origins = {}.compare_by_identity
      end

      # Adopts the endpoints' inherited sockets and, unless `bind` is false, binds the missing ones.
      # Returns inherited sockets that belong to no endpoint. On an error, closes all its sockets.
      def open(endpoints, inherited: [], bind: true)
        endpoints.each do |endpoint|
          mine, inherited = inherited.partition { |socket| socket.for?(endpoint) }
          mine.each { |socket| adopt(socket, endpoint) }
          bind_missing(endpoint, mine, inherited) if bind && mine.none? { |socket| socket.whole?(endpoint) }
        end
        inherited
      rescue SystemCallError, SocketError, StartError
        @listeners.each(&:close)
        raise
      end

      def adopt(socket, endpoint = socket.endpoint)
        bound = endpoint.path ? endpoint : endpoint.with(host: socket.host)
        add(Listener.adopt(socket.descriptor, bound, owned: socket.owned, file: socket.owned), endpoint)
      end

      def to_a
        @listeners.map do |listener|
          endpoint = listener.endpoint
          { descriptor: listener.fileno, origin: @origins.fetch(listener).to_s, host: endpoint.host, port: endpoint.port,
            path: absolute(endpoint.path), owned: !listener.adopted? }
        end
      end

      # Parses another process's {#to_a}. `owned: false`: that process still owns the sockets.
      def self.from(list, owned: true)
        list.map { |each| Inherited.new(*each.values_at("descriptor", "origin", "host", "port", "path"), owned && each["owned"], !each["owned"]) }
      end

      private

      # Binds the endpoint's addresses that have no inherited socket, such as ::1 of localhost.
      def bind_missing(endpoint, mine, others)
        bound = @making.call(endpoint.path) { endpoint.bind(except: mine.flat_map(&:takes)) }
        bound.each { |listener| add(listener, endpoint) }
      rescue Errno::EADDRINUSE
        other = others.find { |socket| socket.port == endpoint.port } or raise
        raise StartError, "listen on #{endpoint}: #{other.endpoint}, which this server listens on, is in its place until it is stopped"
      end

      # Makes the path absolute, because a deploy may change the program's folder.
      def absolute(path) = path.nil? || path.start_with?("@") ? path : File.expand_path(path)

      def add(listener, endpoint)
        @origins[listener] = endpoint
        @listeners << listener
      end
    end
  end
end
