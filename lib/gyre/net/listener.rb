# frozen_string_literal: true

# One listening socket and what belongs to it: the address that it really has, and for a Unix socket
# the file. Gyre::Endpoint#bind makes them, servers accept from them (to_io, fileno), and the caller
# of `bind` closes them. One that a former process left open is adopted. It has no protocol.

require "socket"
require "gyre/clock"

module Gyre
  # A socket that listens, or one that datagrams come to.
  class Listener
    # Errors of a network that a connection has met before it was accepted (accept(2), "Error
    # handling"): it has gone again.
    GONE = [Errno::EINTR, Errno::ECONNABORTED, Errno::ECONNRESET, Errno::ENETDOWN, Errno::EPROTO, Errno::ENOPROTOOPT, Errno::EHOSTDOWN,
            Errno::EHOSTUNREACH, Errno::ENETUNREACH, Errno::EOPNOTSUPP, Errno::EPERM, Errno::ETIMEDOUT].freeze
    # How long a server rests when nothing can be accepted.
    PAUSE_S = 1.0
    # How long another server is waited for that takes a Unix socket in the same folder.
    FOLDER_LOCK_S = 1.0
    private_constant :FOLDER_LOCK_S

    # @return [Gyre::Endpoint] the address bound, with the port that the kernel chose
    attr_reader :endpoint
    # @return [Socket] non-blocking, close-on-exec, listening
    attr_reader :socket

    class << self
      # Listens on one IP address.
      #
      # @param endpoint [Gyre::Endpoint] its host is an IP address
      # @param backlog [Integer]
      # @param only_v6 [Boolean] false lets an IPv6 socket on :: take IPv4 connections as well
      # @return [Listener]
      # @raise [SystemCallError]
      def ip(endpoint, backlog:, only_v6: true)
        address = Addrinfo.public_send(endpoint.transport, endpoint.host, endpoint.port)
        open(address.afamily, endpoint) do |socket|
          # Not with UDP, where it would let two servers share the port (socket(7)).
          socket.setsockopt(:SOCKET, :REUSEADDR, true) unless endpoint.datagram?
          socket.setsockopt(:IPV6, :V6ONLY, only_v6) if address.ipv6?
          socket.bind(address)
          socket.listen(backlog) unless endpoint.datagram?
          new(socket, endpoint.with(port: socket.local_address.ip_port))
        end
      end

      # Listens on a Unix socket. A file that a dead server left behind is replaced; a living one's
      # is not.
      #
      # @param endpoint [Gyre::Endpoint]
      # @param backlog [Integer]
      # @return [Listener]
      # @raise [SystemCallError] Errno::EADDRINUSE when another socket listens there, Errno::EEXIST
      #   when the file is no socket
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

      # Takes over a descriptor that a former process bound: one inherited through exec, or from the
      # parent.
      #
      # @param descriptor [Integer]
      # @param endpoint [Gyre::Endpoint] what it was bound for; the port is asked of the kernel
      # @param owned [Boolean] whether it is this process's alone; else another one may go on with
      #   the same
      # @param file [Boolean] whether {#close} removes a Unix socket's file
      # @return [Listener]
      # @raise [ArgumentError] when the descriptor is no socket of this kind, or does not listen
      def adopt(descriptor, endpoint, owned: false, file: true)
        socket = Socket.for_fd(descriptor)
        raise ArgumentError, "it is another kind of socket, or does not listen" unless bound_for?(socket, endpoint)

        socket.close_on_exec = true
        return new(socket, endpoint.with(port: socket.local_address.ip_port), adopted: !owned) unless endpoint.path

        new(socket, endpoint, file: file && File.exist?(endpoint.path) ? File.stat(endpoint.path) : nil, adopted: !owned)
      rescue SystemCallError, ArgumentError => error
        socket&.autoclose = false # it is not ours
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
        yield socket
      rescue SystemCallError => error
        socket&.close
        raise error.class, "listen on #{endpoint}"
      end

      # The file is made with its mode: another user's link may have its place by a chmod.
      def bind_path(socket, endpoint)
        umask = File.umask(~endpoint.mode & 0o777) if endpoint.mode
        socket.bind(endpoint.unix_address)
      ensure
        File.umask(umask) if umask
      end

      # One server after the other: between its bind and its listen a socket looks stale, and
      # between a probe and the removal of a stale file another server may have taken its place. A
      # folder that cannot be locked is done without.
      def in_turn(folder)
        lock = lock(folder) if folder
        yield
      ensure
        lock&.close
      end

      def lock(folder)
        file = File.open(folder, File::RDONLY | File::NONBLOCK)
        until_s = Clock.now + FOLDER_LOCK_S
        sleep(0.005) until (locked = file.flock(File::LOCK_EX | File::LOCK_NB)) || Clock.now > until_s
        locked ? file : file.close
      rescue SystemCallError
        file&.close
      end

      # Whether a server listens can only be found out by connecting, without waiting: EAGAIN means
      # that the backlog is full, so a server is there (unix(7)).
      def remove_stale(endpoint)
        path = endpoint.path
        raise Errno::EEXIST unless File.lstat(path).socket?

        probe = Socket.new(:UNIX, endpoint.datagram? ? :DGRAM : :STREAM)
        begin
          probe.connect_nonblock(Addrinfo.unix(path), exception: false)
          raise Errno::EADDRINUSE
        rescue Errno::EAGAIN, Errno::EPROTOTYPE # a server is there, with the other kind of socket
          raise Errno::EADDRINUSE
        rescue Errno::ECONNREFUSED
          File.unlink(path)
        ensure
          probe.close
        end
      rescue Errno::ENOENT
        nil # no file, or gone since: nothing to remove
      end
    end

    # @param socket [Socket] bound and listening
    # @param endpoint [Gyre::Endpoint]
    # @param file [File::Stat, nil] the Unix socket's file; {#close} removes it
    # @param adopted [Boolean] another process may have the same socket, and go on with it
    def initialize(socket, endpoint, file: nil, adopted: false)
      @socket = socket
      @endpoint = endpoint
      @file = file
      @adopted = adopted
      @owner = Process.pid
    end

    # @return [Integer, nil] the TCP or UDP port
    def port
      endpoint.port
    end

    # @return [Boolean]
    def unix?
      !endpoint.path.nil?
    end

    # @return [Boolean] whether messages come one by one, without connections
    def datagram?
      endpoint.datagram?
    end

    # @return [Boolean] whether another process may have the same socket, and go on with it
    def adopted? = @adopted

    # @param scheme [String]
    # @return [String] what one types to reach it
    def url(scheme = "http")
      endpoint.url(scheme)
    end

    # @return [String]
    def to_s
      endpoint.to_s
    end

    # @return [Socket]
    def to_io
      @socket
    end

    # Takes a connection, without waiting. The rules are those of ext/gyre/net/acceptor.c: after an
    # error that is raised accepting rests for {PAUSE_S}.
    #
    # @return [Array(Socket, Addrinfo), :gone, nil] :gone: one less waits, whose peer has gone
    #   again; nil: none waits
    # @raise [SystemCallError] the process or the machine is out of descriptors or memory, perhaps
    # @raise [IOError] it is closed
    # @api private
    def accept
      accepted = @socket.accept_nonblock(exception: false)
      accepted unless accepted == :wait_readable
    rescue *GONE
      :gone
    end

    # @return [Integer]
    def fileno
      @socket.fileno
    end

    # @return [Boolean]
    def closed?
      @socket.closed?
    end

    # Lets no new connection in; those that wait can still be accepted. To be called before the last
    # of them are, and {#close} soon after: what came in between would be reset, with a request in
    # it perhaps. Over TCP the kernel then drops SYNs, which a client repeats after a second: it
    # finds a successor then, or is refused without having sent anything. A handshake that is half
    # done may still end. Nothing happens in a forked child, with an adopted socket (the process
    # that gave it may go on with it), and where the kernel cannot do it.
    #
    # @return [void]
    def refuse
      return if closed? || datagram? || @adopted || @owner != Process.pid
      return filter unless unix?

      remove_file
      socket.shutdown(:RD)
    rescue SystemCallError, SocketError
      nil # not known here
    end

    # Stops listening, and removes the Unix socket's file if it is still ours. May be called again.
    #
    # @return [void]
    def close
      return if @socket.closed?

      remove_file
      unfilter
      @socket.close
    end

    # @return [String]
    def inspect
      "#<#{self.class} #{self}#{" closed" if closed?}>"
    end

    private

    def filter
      @filtered = true
      socket.setsockopt(:SOCKET, :ATTACH_FILTER, no_syn)
    end

    # A child that was forked before has the same socket, and may go on with it.
    def unfilter
      socket.setsockopt(:SOCKET, :DETACH_FILTER, 0) if @filtered
    rescue SystemCallError
      nil # there was none: it could not be attached
    end

    # A struct sock_fprog (socket(7), linux/filter.h); it points to the program, which begins at the
    # TCP header: load the byte of the flags; SYN? drop it, or else take all of it. What has no SYN
    # goes on, so a handshake's last ACK arrives.
    def no_syn
      program = [[0x30, 0, 0, 13], [0x45, 0, 1, 0x02], [0x06, 0, 0, 0], [0x06, 0, 0, 0xffffffff]]
      [program.size, program.flatten.pack("SCCL" * program.size)].pack("S@#{[nil].pack("p").bytesize}p")
    end

    # The file may be a successor's by now (another inode), and a forked child must leave its
    # parent's alone.
    def remove_file
      return unless @file && @owner == Process.pid

      now = File.lstat(endpoint.path)
      File.unlink(endpoint.path) if now.ino == @file.ino && now.dev == @file.dev
    rescue SystemCallError
      nil # gone already, or the directory is no longer ours: a file left behind is found stale next time
    end
  end
end
