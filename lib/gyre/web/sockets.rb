# frozen_string_literal: true

# The listening sockets of a server process: bound by it, or inherited: from systemd (socket
# activation), from the program that this process was before (USR2), or from the supervisor. Made by
# Gyre::CLI::Serve and its parts. It accepts nothing.

require "gyre/cli/errors"
require "gyre/net/endpoint"

module Gyre
  module Web
    # One set of them, in the order of the settings.
    class Sockets
      # An inherited socket: its descriptor, the address that it was bound for as the settings had
      # it (nil: unknown), the one that it is bound to, whether it ends with this process, and
      # whether a service manager gave it.
      Inherited = Struct.new(:descriptor, :origin, :host, :port, :path, :owned, :given) do
        # @param endpoint [Gyre::Endpoint] written in whatever way
        # @return [Boolean] whether it is bound to what that endpoint names
        def for?(endpoint)
          return named?(endpoint.path) if path || endpoint.path
          return true if origin == endpoint.to_s # also where the kernel chose the port

          port == endpoint.port && Inherited.meant(endpoint).include?(host)
        end

        # @param endpoint [Gyre::Endpoint] that it is for
        # @return [Boolean] whether it was bound for that one, together with others: none is missing
        def whole?(endpoint) = !path.nil? || origin.nil? || origin == endpoint.to_s

        # @return [Array<String>] addresses whose connections come to it
        def takes
          host == "::" && !Socket.for_fd(descriptor).tap { |socket| socket.autoclose = false }.getsockopt(:IPV6, :V6ONLY).bool ? WILDCARDS : [host]
        end

        # @return [Gyre::Endpoint] of a socket that no setting names
        def endpoint
          path ? Endpoint.new(:unix, path: path) : Endpoint.new(:tcp, host: host, port: port)
        end

        # Closes one that is not needed.
        #
        # @return [void]
        def close
          Socket.for_fd(descriptor).close
          File.unlink(path) if owned && path && !path.start_with?("@")
        rescue SystemCallError
          nil # its file has gone, or may not be removed
        end

        # @param endpoint [Gyre::Endpoint]
        # @return [Array<String>] addresses of sockets that serve it; `::` takes IPv4 as well
        # @raise [SocketError]
        def self.meant(endpoint) = endpoint.host == "::" ? WILDCARDS : endpoint.addresses

        private

        # A path may have other names, and another socket may have its place by now.
        def named?(other)
          return path == other if [path, other].any? { |each| each.nil? || each.start_with?("@") }

          File.identical?(path, other) || path == File.expand_path(other)
        end
      end
      WILDCARDS = %w[0.0.0.0 ::].freeze

      # systemd passes sockets from this descriptor on (sd_listen_fds(3)).
      FIRST_DESCRIPTOR = 3
      private_constant :FIRST_DESCRIPTOR, :WILDCARDS

      # @param environment [Hash{String => String}]
      # @return [Array<Inherited>] of systemd; none when they are for another process
      def self.activated(environment = ENV)
        return [] unless environment["LISTEN_PID"] == Process.pid.to_s

        Array.new(environment["LISTEN_FDS"].to_i) { |number| describe(FIRST_DESCRIPTOR + number) }
      end

      # @param descriptor [Integer] of a socket
      # @return [Inherited]
      # @raise [ArgumentError] it is none
      def self.describe(descriptor)
        socket = Socket.for_fd(descriptor)
        socket.autoclose = false
        address = socket.local_address
        return Inherited.new(descriptor, nil, nil, nil, address.unix_path.sub(/\A\0/, "@"), false, true) if address.unix?

        Inherited.new(descriptor, nil, address.ip_address, address.ip_port, nil, false, true)
      rescue SystemCallError, SocketError => error
        raise ArgumentError, "descriptor #{descriptor} from systemd is no socket that listens: #{error.message}"
      end

      # Keeps inherited sockets from programs that this process starts.
      #
      # @param descriptors [Array<Integer>]
      # @return [void]
      def self.keep_private(descriptors)
        descriptors.each { |descriptor| IO.for_fd(descriptor, autoclose: false).close_on_exec = true }
      end

      # @return [Array<Gyre::Listener>]
      attr_reader :listeners

      # @param making [#call] given the path of a Unix socket, or nil, and a block that binds it
      def initialize(making: ->(_path, &bind) { bind.call })
        @making = making
        @listeners = []
        @origins = {}.compare_by_identity
      end

      # Opens what the settings name.
      #
      # @param endpoints [Array<Gyre::Endpoint>]
      # @param inherited [Array<Inherited>] taken where they fit
      # @param bind [Boolean] whether the others are bound; else they are left out
      # @return [Array<Inherited>] those that no endpoint names
      # @raise [SystemCallError, SocketError, StartError] none is open then, but for inherited ones
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

      # Takes an inherited socket.
      #
      # @param socket [Inherited]
      # @param endpoint [Gyre::Endpoint] what it is for
      # @return [void]
      def adopt(socket, endpoint = socket.endpoint)
        bound = endpoint.path ? endpoint : endpoint.with(host: socket.host)
        add(Listener.adopt(socket.descriptor, bound, owned: socket.owned, file: socket.owned), endpoint)
      end

      # @return [Array<Hash>] for JSON: the same sockets, for another process
      def to_a
        @listeners.map do |listener|
          endpoint = listener.endpoint
          { descriptor: listener.fileno, origin: @origins.fetch(listener).to_s, host: endpoint.host, port: endpoint.port,
            path: absolute(endpoint.path), owned: !listener.adopted? }
        end
      end

      # @param list [Array<Hash{String => Object}>] of {#to_a}, from JSON
      # @param owned [Boolean] false: in a process beside the one that made the list
      # @return [Array<Inherited>]
      def self.from(list, owned: true)
        list.map { |each| Inherited.new(*each.values_at("descriptor", "origin", "host", "port", "path"), owned && each["owned"], !each["owned"]) }
      end

      private

      # Addresses for which none is inherited, as of `localhost` where it was 127.0.0.1.
      def bind_missing(endpoint, mine, others)
        bound = @making.call(endpoint.path) { endpoint.bind(except: mine.flat_map(&:takes)) }
        bound.each { |listener| add(listener, endpoint) }
      rescue Errno::EADDRINUSE
        other = others.find { |socket| socket.port == endpoint.port } or raise
        raise StartError, "listen on #{endpoint}: #{other.endpoint}, which this server listens on, is in its place until it is stopped"
      end

      # The folder of a program may be another one after a deploy.
      def absolute(path) = path.nil? || path.start_with?("@") ? path : File.expand_path(path)

      def add(listener, endpoint)
        @origins[listener] = endpoint
        @listeners << listener
      end
    end
  end
end
