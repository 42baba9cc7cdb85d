# frozen_string_literal: true

# EventMachine's functions that make connections and servers.

module Gyre
  module EventMachine
    @accept_count = 10

    class << self
      # Takes host and port, or the path of a Unix socket. `handler` is a subclass of Connection, or
      # a module for a new subclass. Returns a signature for {stop_server}. Yields each new
      # connection.
      def start_server(server, port = nil, handler = nil, *arguments, &block)
        port, handler, arguments = place(port, handler, arguments)
        klass = klass_from_handler(Connection, handler, *arguments)
        socket = port ? TCPServer.new(resolve(server, port, :STREAM).ip_address, port) : listen_at(server)
        socket.listen(1024)
        running_reactor.call { Descriptors::Acceptor.new(reactor, socket, [klass, arguments, block]).signature }
      rescue SystemCallError => error
        raise "no acceptor (port is in use or requires root privileges): #{error.message}"
      end

      def start_unix_domain_server(path, *arguments, &block) = start_server(path, *arguments, &block)

      # Serves a socket that is already listening. Returns a signature.
      def attach_server(socket, handler = nil, *arguments, &block)
        klass = klass_from_handler(Connection, handler, *arguments)
        number = socket.respond_to?(:fileno) ? socket.fileno : socket
        kind = BasicSocket.for_fd(number).tap { |io| io.autoclose = false }.local_address.ip? ? TCPServer : UNIXServer
        io = kind.for_fd(number).tap { |server| server.autoclose = false }
        running_reactor.call { Descriptors::Acceptor.new(reactor, io, [klass, arguments, block, socket]).signature }
      end

      def stop_server(signature)
        server = reactor.descriptors[signature] or return
        reactor.in_turn do
          server.ready # clients that have connected before
          server.release
        end
      end

      # Takes the same arguments as {start_server}. Afterwards `connection_completed` or `unbind` is
      # called. Raises ConnectionError for an unknown host.
      def connect(server, port = nil, handler = nil, *arguments, &block) = bind_connect(nil, nil, server, port, handler, *arguments, &block)

      def bind_connect(bind_address, bind_port, server, port = nil, handler = nil, *arguments, &block)
        port, handler, arguments = place(port, handler, arguments)
        opened(handler, arguments, block) { stream_to(server, port, bind_address, bind_port) }
      end

      def connect_unix_domain(path, *arguments, &block) = connect(path, *arguments, &block)

      # Reconnects a connection that has ended.
      def reconnect(server, port, handler, &block)
        raise "invalid handler" unless handler.respond_to?(:connection_completed)
        return handler if reactor.conns.key?(handler.signature)

        running_reactor.call { stream_to(server, port&.to_i, nil, nil).reopen(handler).tap { |connection| block&.call(connection) } }
      end

      def open_datagram_socket(address, port, handler = nil, *arguments, &block)
        opened(handler, arguments, block) { packets_at(resolve(address, port, :DGRAM).ip_address, port.to_i) }
      end

      # Reports by notify_readable and notify_writable when the program can read or write an IO.
      def watch(io, handler = nil, *arguments, &block) = attach_io(Descriptors::Watched, io, handler, arguments, &block)

      # Takes over an IO; the connection reads and writes it.
      def attach(io, handler = nil, *arguments, &block)
        klass = klass_from_handler(Connection, handler, *arguments)
        if %i[notify_readable notify_writable].any? { |name| klass.public_method_defined?(name) }
          raise ArgumentError, "notify_readable/writable with EM.attach is not supported. Use EM.watch(io){ |c| c.notify_readable = true }"
        end

        attach_io(Descriptors::Stream, io, handler, arguments, &block)
      end

      # Makes a connection that receives standard input.
      def open_keyboard(handler = nil, *arguments, &block) = attach_io(Descriptors::Keyboard, $stdin.dup, handler, arguments, &block)

      def connection_count = reactor.descriptors.size

      def num_close_scheduled = reactor.descriptors.each_value.count(&:closing?)

      def get_simultaneous_accept_count = @accept_count

      def set_simultaneous_accept_count(count) = @accept_count = [count, 1].max

      def klass_from_handler(klass = Connection, handler = nil, *arguments)
        klass = class_of(handler, klass) if handler
        arity = klass.instance_method(:initialize).arity
        expected = arity.negative? ? -(arity + 1) : arity
        return klass if arity.negative? ? arguments.size >= expected : arguments.size == expected

        raise ArgumentError, "wrong number of arguments for #{klass}#initialize (#{arguments.size} for #{expected})"
      end

      private

      def running_reactor
        raise "eventmachine not initialized" unless reactor.running?

        reactor
      end

      # Opens the descriptor that the method's own block makes; `block` gets the connection.
      def opened(handler, arguments, block)
        klass = klass_from_handler(Connection, handler, *arguments)
        running_reactor.call { yield.open(klass, arguments).tap { |connection| block&.call(connection) } }
      end

      # Returns port, handler and arguments. If the port is omitted, the handler is in its place.
      def place(port, handler, arguments)
        [port && Integer(port), handler, arguments]
      rescue ArgumentError, TypeError
        [nil, port, handler ? [handler, *arguments] : arguments]
      end

      def class_of(handler, klass)
        if handler.is_a?(Class)
          raise ArgumentError, "must provide module or subclass of #{klass.name}" unless handler <= klass

          handler
        elsif handler.const_defined?(:EM_CONNECTION_CLASS)
          handler::EM_CONNECTION_CLASS
        else
          handler.const_set(:EM_CONNECTION_CLASS, Class.new(klass) { include handler })
        end
      end

      def attach_io(kind, io, handler, arguments, &block)
        unless io.respond_to?(:to_io)
          number = io.respond_to?(:fileno) ? io.fileno : io
          io = IO.for_fd(number, autoclose: false).stat.socket? ? Socket.for_fd(number) : IO.for_fd(number)
          io.autoclose = false if kind == Descriptors::Watched
        end
        keep = lambda do |connection|
          connection.instance_variable_set(:@io, io) # programs read it
          block&.call(connection)
        end
        opened(handler, arguments, keep) { kind.new(reactor, io.to_io) }
      end

      def packets_at(host, port)
        Descriptors::Packets.new(reactor, "udp://#{host.include?(":") ? "[#{host}]" : host}:#{port}")
      rescue SystemCallError => error
        raise "no datagram socket: #{error.message}"
      end

      # Removes the socket file of a former server.
      def listen_at(path)
        File.unlink(path) if File.socket?(path)
        UNIXServer.new(path)
      end

      def stream_to(server, port, bind_address, bind_port)
        target = port ? resolve(server, port, :STREAM) : Addrinfo.unix(server)
        socket = Socket.new(target.afamily, :STREAM)
        socket.setsockopt(:TCP, :NODELAY, true) if port
        bind_to(socket, bind_address, bind_port) if bind_address
        Descriptors::Client.new(reactor, socket, target)
      end

      def bind_to(socket, host, port)
        socket.setsockopt(:SOCKET, :REUSEADDR, true)
        socket.bind(resolve(host, port.to_i, :STREAM, "invalid bind address"))
      rescue SystemCallError => error
        socket.close
        raise ConnectionError, "couldn't bind: #{error.message}"
      end

      # Parks the callback if a name server must be asked.
      def resolve(host, port, type, problem = "unable to resolve address")
        find = -> { Addrinfo.getaddrinfo(host, port, nil, type).first }
        host.match?(/\A[\d.]+\z|:|\Alocalhost\z/) ? unscheduled(&find) : find.call
      rescue SocketError => error
        raise ConnectionError, "#{problem}: #{error.message}"
      end
    end
  end
end
