# frozen_string_literal: true

# A server process's listening sockets: bound, or inherited from systemd, a former program (USR2) or
# the supervisor. Made by Gyre::CLI::Serve and its parts. Accepts nothing.

require "gyre/errors"
require "gyre/net/endpoint"

module Gyre
  module Web
    class Sockets
      # An inherited socket: descriptor, original setting (nil: unknown), address, whether it ends
      # with this process, whether a service manager passed it.
      Inherited = Struct.new(:descriptor, :origin, :host, :port, :path, :owned, :given) do
        # True if bound to the endpoint's address in any spelling.
        def for?(endpoint)
          return named?(endpoint.path) if path || endpoint.path
          return true if origin == endpoint.to_s # also if the kernel chose the port

          port == endpoint.port && Inherited.meant(endpoint).include?(host)
        end

        # True if the socket covers all addresses of the endpoint.
        def whole?(endpoint) = !path.nil? || origin.nil? || origin == endpoint.to_s

        # Addresses accepted by this socket.
        def takes
          host == "::" && !Socket.for_fd(descriptor).tap { |socket| socket.autoclose = false }.getsockopt(:IPV6, :V6ONLY).bool ? WILDCARDS : [host]
        end

        # Made of the bound address, if the setting is unknown.
        def endpoint = path ? Endpoint.new(:unix, path: path) : Endpoint.new(:tcp, host: host, port: port)

        def close
          Socket.for_fd(descriptor).close
          File.unlink(path) if owned && path && !path.start_with?("@")
        rescue SystemCallError
          nil # its file has gone, or may not be removed
        end

        # An endpoint's addresses; `::` includes IPv4.
        def self.meant(endpoint) = endpoint.host == "::" ? WILDCARDS : endpoint.addresses

        private

        # A path may have other names, or lead to another socket by now.
        def named?(other)
          return path == other if [path, other].any? { |each| each.nil? || each.start_with?("@") }

          File.identical?(path, other) || path == File.expand_path(other)
        end
      end
      WILDCARDS = %w[0.0.0.0 ::].freeze

      # Of systemd (sd_listen_fds(3)).
      FIRST_DESCRIPTOR = 3

      # Systemd's sockets, if they are meant for this process.
      def self.activated(environment = ENV)
        return [] unless environment["LISTEN_PID"] == Process.pid.to_s

        Array.new(environment["LISTEN_FDS"].to_i) { |number| describe(FIRST_DESCRIPTOR + number) }
      end

      # Raises ArgumentError for no socket.
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

      # `making` gets a Unix socket's path or nil, and a block to bind it.
      def initialize(making: ->(_path, &bind) { bind.call })
        @making = making
        @listeners = []
        @origins = {}.compare_by_identity
      end

      # Opens the settings' sockets, or for `bind: false` only inherited ones. Returns inherited
      # sockets without an endpoint. On an error, closes its own.
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

      # `owned: false`: the sockets end with the list's maker.
      def self.from(list, owned: true)
        list.map { |each| Inherited.new(*each.values_at("descriptor", "origin", "host", "port", "path"), owned && each["owned"], !each["owned"]) }
      end

      private

      # Binds addresses without an inherited socket, such as `localhost`'s others after 127.0.0.1.
      def bind_missing(endpoint, mine, others)
        bound = @making.call(endpoint.path) { endpoint.bind(except: mine.flat_map(&:takes)) }
        bound.each { |listener| add(listener, endpoint) }
      rescue Errno::EADDRINUSE
        other = others.find { |socket| socket.port == endpoint.port } or raise
        raise StartError, "listen on #{endpoint}: #{other.endpoint}, which this server listens on, is in its place until it is stopped"
      end

      # Makes paths absolute: a deploy may change the program's folder.
      def absolute(path) = path.nil? || path.start_with?("@") ? path : File.expand_path(path)

      def add(listener, endpoint)
        @origins[listener] = endpoint
        @listeners << listener
      end
    end
  end
end
