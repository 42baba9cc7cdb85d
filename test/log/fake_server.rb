# frozen_string_literal: true

# A log server for the tests of clients: both protocols, in threads of the test's process, with
# faults on order. It shares no code with the clients: a mistake there must not hide here.
require "openssl"
require "socket"
require "zlib"

module GyreTest
  # FakeLogServer.new { |server| … } closes itself; `stop` and `start` are an outage.
  class FakeLogServer
    Record = Struct.new(:client, :sequence, :time_us, :service, :severity, :message)
    Frame = Struct.new(:service, :severity, :message)

    # What it answers: "accepted 2\n" …; nil: what the client asks for.
    attr_accessor :reply
    # :each, or :never; or a number of seconds after which.
    attr_accessor :acknowledge
    # Ends a connection after that many bytes, once.
    attr_accessor :cut_after
    # Reads nothing while it is true.
    attr_accessor :stalled
    attr_reader :port, :records, :frames, :raw, :connections, :failures

    # What the kernel keeps of what is not read. Without this, machines keep anything between 4 and
    # 40 MB.
    RECEIVE_BYTES = 65_536

    def self.open(**options)
      server = new(**options)
      yield server
    ensure
      server&.close
    end

    def initialize(reply: nil, acknowledge: :each, cut_after: nil, start: true, tls: nil, path: nil)
      @path = path
      @reply = reply
      @acknowledge = acknowledge
      @cut_after = cut_after
      @tls = tls
      @records = []
      @frames = []
      @raw = []
      @failures = []
      @connections = 0
      @stored = Hash.new(0)
      @lock = Mutex.new
      @threads = []
      @sockets = []
      # While the server is away no other process gets its port, not even the client that tries to
      # reach it.
      @placeholder = bind(0)
      @port = @placeholder.local_address.ip_port unless path
      self.start if start
    end

    def start
      @listener = bind(@port).tap { |listener| listener.listen(Socket::SOMAXCONN) }
      @leave, @waker = IO.pipe
      @accepting = Thread.new(@listener, @leave) { |listener, leave| accept(listener, leave) }
    end

    # A server that was killed at its first step closes nothing by itself.
    def stop
      return unless @accepting

      @waker.close
      @accepting.join
      [@listener, @leave].each(&:close)
      close_sockets
      @threads.each { |thread| thread.kill.join }
      close_sockets
      @threads, @sockets, @accepting = [], [], nil
    end

    def close
      stop
      @placeholder.close
    end

    # Writes to every connection.
    def tell(text)
      @lock.synchronize { @sockets.uniq }.each do |socket|
        socket.write(text)
      rescue IOError, SystemCallError
        nil # its client has gone
      end
    end

    def messages
      @lock.synchronize { (@records + @frames).map(&:message) }
    end

    private

    def bind(port)
      return bind_path if @path

      socket = Socket.new(:INET, :STREAM)
      socket.setsockopt(:SOCKET, :REUSEADDR, true)
      socket.setsockopt(:SOCKET, :RCVBUF, RECEIVE_BYTES)
      socket.bind(Addrinfo.tcp("127.0.0.1", port))
      socket
    end

    def bind_path
      File.delete(@path) if File.exist?(@path)
      Socket.new(:UNIX, :STREAM).tap { |socket| socket.bind(Addrinfo.unix(@path)) }
    end

    def accept(listener, leave)
      until IO.select([listener, leave]).first.include?(leave)
        socket, = listener.accept_nonblock(exception: false)
        next unless socket.is_a?(Socket)

        @lock.synchronize do
          @sockets << socket
          @connections += 1
          @threads << Thread.new(socket) { |accepted| serve(accepted) }
        end
      end
    end

    def close_sockets
      @lock.synchronize { @sockets.each { |socket| socket.close unless socket.closed? } }
    end

    def serve(socket)
      if @tls
        socket = OpenSSL::SSL::SSLSocket.new(socket, @tls).tap { |tls| tls.sync_close = true }
        socket.accept
      end
      @lock.synchronize { @sockets << socket }
      _, severity, = read_frame(socket)
      client = severity[/client=(\h{32})/, 1]
      socket.write(reply || (client ? "accepted 2\n" : "accepted\n"))
      return socket.close if reply && !reply.start_with?("accepted")

      client && reply != "accepted\n" ? read_records(socket, client) : read_frames(socket)
    rescue IOError, SystemCallError, OpenSSL::SSL::SSLError, TypeError
      nil # the client is gone, or the test cut it off
    rescue StandardError => error
      @failures << error
    ensure
      socket.close unless socket.closed?
    end

    def read_frame(socket)
      head = read(socket, 8)
      raise "bad header #{head.inspect}" unless head.match?(/\A(\d{4})\1\z/n)

      _, service, severity, message = read(socket, head[0, 4].to_i - 8).split(":", 4)
      [service, severity, message]
    end

    def read_frames(socket)
      loop do
        frame = Frame.new(*read_frame(socket))
        @lock.synchronize { @frames << frame }
      end
    end

    def read_records(socket, client)
      loop do
        length, crc = read(socket, 8).unpack("NN")
        body = read(socket, length)
        raise "bad checksum" unless Zlib.crc32(body) == crc

        sequence, time_us, service, severity = body.unpack("Q>Q>CC")
        fresh = sequence > @stored[client]
        record = Record.new(client, sequence, time_us, body[18, service], body[18 + service, severity], body[18 + service + severity..])
        @lock.synchronize do
          @raw << record
          @records << record if fresh
          @stored[client] = sequence if fresh
        end
        answer(socket, sequence)
      end
    end

    def answer(socket, sequence)
      return if acknowledge == :never

      sleep acknowledge if acknowledge.is_a?(Numeric)
      socket.write("ack #{sequence}\n")
    end

    def read(socket, count)
      sleep 0.005 while stalled
      if @cut_after && (@cut_after -= count) <= 0
        @cut_after = nil
        socket.close
      end
      socket.read(count) or raise EOFError
    end
  end
end
