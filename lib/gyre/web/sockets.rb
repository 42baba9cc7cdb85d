# frozen_string_literal: true

# The listening sockets of a server process: bound by it, or inherited: from systemd (socket
# activation), from the program that this process was before (USR2), or from the supervisor. Made by
# Gyre::CLI::Serve and its parts. It accepts nothing.

require "gyre/net/endpoint"

module Gyre
  module Web
    # One set of them, in the order of the settings.
    class Sockets
      # An inherited socket: its descriptor, the address that it was bound for as the settings have
      # it (nil: unknown), the one that it is bound to, and whether it ends with this process.
      Inherited = Struct.new(:descriptor, :origin, :host, :port, :path, :owned) do
        # @param endpoint [Gyre::Endpoint]
        # @return [Boolean] whether it is what one would bind for that endpoint
        def for?(endpoint)
          return origin == endpoint.to_s if origin
          return path == endpoint.path if path || endpoint.path

          port == endpoint.port && (host == endpoint.host || Inherited.meant(endpoint.host).include?(host))
        end

        # @param name [String]
        # @return [Array<String>] addresses that a bind for that name may have
        def self.meant(name)
          { "*" => %w[0.0.0.0 ::], "localhost" => %w[127.0.0.1 ::1] }.fetch(name, [])
        end

        # @return [Gyre::Endpoint] of a socket that no setting names
        def endpoint
          path ? Endpoint.new(:unix, path: path) : Endpoint.new(:tcp, host: host, port: port)
        end
      end

      # systemd passes sockets from this descriptor on (sd_listen_fds(3)).
      FIRST_DESCRIPTOR = 3
      private_constant :FIRST_DESCRIPTOR

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
        return Inherited.new(descriptor, nil, nil, nil, address.unix_path.sub(/\A\0/, "@")) if address.unix?

        Inherited.new(descriptor, nil, address.ip_address, address.ip_port)
      rescue SystemCallError, SocketError => error
        raise ArgumentError, "descriptor #{descriptor} from systemd is no socket that listens: #{error.message}"
      end

      # @return [Array<Gyre::Listener>]
      attr_reader :listeners

      def initialize
        @listeners = []
        @origins = {}.compare_by_identity
      end

      # Opens what the settings name.
      #
      # @param endpoints [Array<Gyre::Endpoint>]
      # @param inherited [Array<Inherited>] taken where they fit
      # @param bind [Boolean] whether the others are bound; else they are left out
      # @return [Array<Inherited>] those that no endpoint names
      # @raise [SystemCallError, SocketError] none is open then, but for inherited ones
      def open(endpoints, inherited: [], bind: true)
        endpoints.each do |endpoint|
          mine, inherited = inherited.partition { |socket| socket.for?(endpoint) }
          mine.each { |socket| adopt(socket, endpoint) }
          endpoint.bind.each { |listener| add(listener, endpoint) } if mine.empty? && bind
        end
        inherited
      rescue SystemCallError, SocketError
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
          { descriptor: listener.fileno, origin: @origins.fetch(listener).to_s, host: endpoint.host, port: endpoint.port, path: endpoint.path,
            owned: !listener.adopted? }
        end
      end

      # @param list [Array<Hash{String => Object}>] of {#to_a}, from JSON
      # @param owned [Boolean] false: in a process beside the one that made the list
      # @return [Array<Inherited>]
      def self.from(list, owned: true)
        list.map { |each| Inherited.new(*each.values_at("descriptor", "origin", "host", "port", "path"), owned && each["owned"]) }
      end

      private

      def add(listener, endpoint)
        @origins[listener] = endpoint
        @listeners << listener
      end
    end
  end
end
