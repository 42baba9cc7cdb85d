# frozen_string_literal: true

# A listening socket, its address and, for a Unix socket, its file. Made by Gyre::Endpoint#bind,
# whose caller closes it, or by adoption of another process's socket. Servers accept connections
# from it. Knows no protocol.

require "socket"
require "gyre/clock"

module Gyre
  # Listens, or receives datagrams.
  class Listener
    # Errors for a connection that ended before it was accepted (accept(2), "Error handling").
    GONE = [Errno::EINTR, Errno::ECONNABORTED, Errno::ECONNRESET, Errno::ENETDOWN, Errno::EPROTO, Errno::ENOPROTOOPT, Errno::EHOSTDOWN,
            Errno::EHOSTUNREACH, Errno::ENETUNREACH, Errno::EOPNOTSUPP, Errno::EPERM, Errno::ETIMEDOUT].freeze
    # Seconds that a server pauses after accept has failed.
    PAUSE_S = 1.0
    # Maximum seconds to wait for a folder's lock while another server opens a Unix socket there.
    FOLDER_LOCK_S = 1.0
    private_constant :FOLDER_LOCK_S

    # @return [Gyre::Endpoint] the bound address, with the chosen port
    attr_reader :endpoint
    # @return [Socket] non-blocking, close-on-exec, listening
    attr_reader :socket

    class << self
      # Listens on one IP address.
      # @param endpoint [Gyre::Endpoint] its host is an IP address
      # @param backlog [Integer]
      # @param only_v6 [Boolean] false: an IPv6 socket on :: also takes IPv4
      # @return [Listener]
      # @raise [SystemCallError]
      def ip(endpoint, backlog:, only_v6: true, reuse: !endpoint.datagram?)
        address = Addrinfo.public_send(endpoint.transport, endpoint.host, endpoint.port)
        open(address.afamily, endpoint) do |socket|
          # REUSEADDR would let two UDP servers share the port (socket(7)).
          socket.setsockopt(:SOCKET, :REUSEADDR, true) if reuse
          socket.setsockopt(:IPV6, :V6ONLY, only_v6) if address.ipv6?
          socket.bind(address)
          control_congestion(socket, endpoint)
          socket.listen(backlog) unless endpoint.datagram?
          new(socket, endpoint.with(port: socket.local_address.ip_port))
        end
      end

      # Listens on a Unix socket. Replaces an existing socket file only if no server uses it.
      # @param endpoint [Gyre::Endpoint]
      # @param backlog [Integer]
      # @return [Listener]
      # @raise [SystemCallError] Errno::EADDRINUSE; Errno::EEXIST: the file is not a socket
      def unix(endpoint, backlog:)
        path = endpoint.path
        abstract = path.start_with?("@")
        open(:UNIX, endpoint) do |socket|
          in_turn(abstract ? nil : File.dirname(path)) do
            remove_stale(endpoint) unless abstract
            bind_path(socket, endpoint)
            socket.listen(backlog) unless endpoint.datagram?
          end
          new(socket, endpoint, file: abstract ? nil : File.lstat(path))
        end
      end

      # Takes over a bound socket that this process inherited through exec or from its parent.
      # @param descriptor [Integer]
      # @param endpoint [Gyre::Endpoint] its original address
      # @param owned [Boolean] whether only this process has it
      # @param file [Boolean] whether {#close} removes a Unix socket's file
      # @return [Listener]
      # @raise [ArgumentError] it is not a listening socket of this kind
      def adopt(descriptor, endpoint, owned: false, file: true)
        socket = Socket.for_fd(descriptor)
        raise ArgumentError, "it is another kind of socket, or does not listen" unless bound_for?(socket, endpoint)

        socket.close_on_exec = true
        control_congestion(socket, endpoint)
        return new(socket, endpoint.with(port: socket.local_address.ip_port), adopted: !owned) unless endpoint.path

        new(socket, endpoint, file: file && File.exist?(endpoint.path) ? File.stat(endpoint.path) : nil, adopted: !owned)
      rescue SystemCallError, ArgumentError => error
        socket&.autoclose = false # the socket stays the caller's
        raise ArgumentError, "adopt descriptor #{descriptor} for #{endpoint}: #{error.message}"
      end

      private

      def bound_for?(socket, endpoint)
        wanted = endpoint.datagram? ? Socket::SOCK_DGRAM : Socket::SOCK_STREAM
        socket.local_address.unix? == !endpoint.path.nil? && socket.getsockopt(:SOCKET, :TYPE).int == wanted &&
          (endpoint.datagram? || socket.getsockopt(:SOCKET, :ACCEPTCONN).bool)
      end

      def open(family, endpoint)
        socket = Socket.new(family, endpoint.datagram? ? :DGRAM : :STREAM)
        opened = yield socket
      rescue SystemCallError => error
        raise error.class, "listen on #{endpoint}"
      ensure
        socket&.close unless opened # also after Thread#raise
      end

      # Sets TCP_CONGESTION (tcp(7)), which accepted sockets inherit. Continues with the kernel's
      # usual control if it refuses.
      def control_congestion(socket, endpoint)
        name = endpoint.congestion
        return if name.nil? || socket.getsockopt(:TCP, Socket::TCP_CONGESTION).data.delete("\0") == name

        socket.setsockopt(:TCP, Socket::TCP_CONGESTION, name)
      rescue SystemCallError, NameError => error
        hint = error.is_a?(Errno::EPERM) ? "allow it by sysctl net.ipv4.tcp_allowed_congestion_control" : "on Linux: modprobe tcp_#{name}"
        warn("listen on #{endpoint}: the kernel refuses congestion=#{name} and keeps its usual control; #{hint}")
      end

      # Creates the file with its mode, because a later chmod could follow another user's link.
      def bind_path(socket, endpoint)
        umask = File.umask(~endpoint.mode & 0o777) if endpoint.mode
        socket.bind(endpoint.unix_address)
      ensure
        File.umask(umask) if umask
      end

      # Locks the folder. Otherwise another server could remove a socket that does not listen yet,
      # or a new socket that has replaced a stale file. Continues if the folder cannot be locked.
      def in_turn(folder)
        begin
          file = File.open(folder, File::RDONLY | File::NONBLOCK) if folder
          until_s = Clock.now + FOLDER_LOCK_S
          sleep(0.005) until file.nil? || file.flock(File::LOCK_EX | File::LOCK_NB) || Clock.now > until_s
        rescue SystemCallError
          nil # continues without the lock
        end
        yield
      ensure
        file&.close # also after Thread#raise, which must not leave the folder locked
      end

      # Removes the file if no server uses it. Connects without blocking: EAGAIN means that a server
      # exists and its backlog is full (unix(7)).
      def remove_stale(endpoint)
        path = endpoint.path
        raise Errno::EEXIST unless File.lstat(path).socket?

        probe = Socket.new(:UNIX, endpoint.datagram? ? :DGRAM : :STREAM)
        begin
          probe.connect_nonblock(Addrinfo.unix(path), exception: false)
          raise Errno::EADDRINUSE
        rescue Errno::EAGAIN, Errno::EPROTOTYPE # a full queue, or a socket of the other kind
          raise Errno::EADDRINUSE
        rescue Errno::ECONNREFUSED
          File.unlink(path)
        ensure
          probe.close
        end
      rescue Errno::ENOENT
        nil # the file does not exist, or has just been removed
      end
    end

    # @param socket [Socket] bound and listening
    # @param endpoint [Gyre::Endpoint]
    # @param file [File::Stat, nil] a Unix socket's, removed by {#close}
    # @param adopted [Boolean] another process may have the same socket
    def initialize(socket, endpoint, file: nil, adopted: false)
      @socket = socket
      @endpoint = endpoint
      @file = file
      @adopted = adopted
      @owner = Process.pid
    end

    # @return [Integer, nil] the TCP or UDP port
    def port = endpoint.port

    # @return [Boolean] whether it receives datagrams
    def datagram? = endpoint.datagram?

    # @return [Boolean] whether another process may have the same socket
    def adopted? = @adopted

    # @param scheme [String]
    # @return [String] for users
    def url(scheme = "http") = endpoint.url(scheme)

    # @return [String]
    def to_s = endpoint.to_s

    # @return [Socket]
    def to_io = @socket

    # Accepts a connection without waiting. After a SystemCallError the caller pauses for {PAUSE_S},
    # like ext/gyre/net/acceptor.c.
    # @return [Array(Socket, Addrinfo), :gone, nil] :gone: the peer has left; nil: none waits
    # @raise [SystemCallError] such as a lack of descriptors or memory
    # @raise [IOError] it is closed
    # @api private
    def accept
      accepted = @socket.accept_nonblock(exception: false)
      accepted unless accepted == :wait_readable
    rescue *GONE
      :gone
    end

    # @return [Integer]
    def fileno = @socket.fileno

    # @return [Boolean]
    def closed? = @socket.closed?

    # Stops new connections, so that the caller can accept the waiting ones and then call {#close}.
    # {#close} must follow soon, because it resets connections that are not accepted by then. Over
    # TCP the kernel drops SYNs: a client repeats its SYN after a second and reaches a successor, or
    # is refused before it sends data. Handshakes in progress may still complete. Does nothing in a
    # forked child, for an adopted socket, or if the kernel does not support it.
    # @return [void]
    def refuse
      return if closed? || datagram? || @adopted || @owner != Process.pid
      return filter unless endpoint.path

      remove_file
      socket.shutdown(:RD)
    rescue SystemCallError, SocketError
      nil # the kernel does not support it
    end

    # Stops listening and removes a Unix socket's file. Repeated calls do nothing.
    # @return [void]
    def close
      return if @socket.closed?

      remove_file
      unfilter
      @socket.close
    end

    # @return [String]
    def inspect = "#<#{self.class} #{self}#{" closed" if closed?}>"

    private

    def filter
      @filtered = true
      socket.setsockopt(:SOCKET, :ATTACH_FILTER, no_syn)
    end

    # Removes the filter, because a forked child may still use the socket.
    def unfilter
      socket.setsockopt(:SOCKET, :DETACH_FILTER, 0) if @filtered
    rescue SystemCallError
      nil # no filter was attached
    end

    # Returns a struct sock_fprog (socket(7), linux/filter.h): a program that drops TCP packets with
    # the flag SYN. The last ACK of a handshake passes.
    def no_syn
      program = [[0x30, 0, 0, 13], [0x45, 0, 1, 0x02], [0x06, 0, 0, 0], [0x06, 0, 0, 0xffffffff]]
      [program.size, program.flatten.pack("SCCL" * program.size)].pack("S@#{[nil].pack("p").bytesize}p")
    end

    # Removes the Unix socket's file, but not in a forked child or if a successor has replaced it.
    def remove_file
      return unless @file && @owner == Process.pid

      now = File.lstat(endpoint.path)
      File.unlink(endpoint.path) if now.ino == @file.ino && now.dev == @file.dev
    rescue SystemCallError
      nil # it is gone, or this user may not remove it: the next server replaces it
    end
  end
end
