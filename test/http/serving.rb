# frozen_string_literal: true

# Serves an app in a thread of this process and talks to it over raw sockets, for the tests of
# HTTP/1. No test itself.

require "io/wait"
require "socket"
require "tmpdir"
require "gyre"
require "gyre/http"
require "support/certificates"

module GyreTest
  # For test classes: a served app, and clients that see every byte.
  module HTTPServing
    PATIENCE_S = Float(ENV.fetch("GYRE_TEST_LIMIT_S", "120")) / 4 # longer under the slow tools
    # The server's patience with a client, which is under the slow tools, too.
    PATIENCE = %i[first_byte_timeout_s head_timeout_s read_timeout_s write_timeout_s].to_h { |name| [name, PATIENCE_S] }.freeze

    # One response as it came over the wire.
    Response = Struct.new(:status, :fields, :body, :head) do
      # Returns the values of a field, joined.
      def [](name)
        values = fields.filter_map { |field, value| value if field.casecmp?(name) }
        values.join(", ") unless values.empty?
      end

      # Returns how often a field was sent.
      def count(name)
        fields.count { |field, _| field.casecmp?(name) }
      end
    end

    # Before the socket is connected or listens: else the kernel lets it grow.
    def self.limit_buffers(socket, bytes)
      %i[SNDBUF RCVBUF].each { |option| socket.setsockopt(:SOCKET, option, bytes) } if bytes
    end

    # PEM of a certificate and its key for servers over TLS, made once.
    def self.identity
      @identity ||= make_identity
    end

    # The same of a certificate that is longer than a socket takes at once.
    def self.long_identity
      @long_identity ||= make_identity(alt: Array.new(1000) { |index| "DNS:name-#{index}.example.org" }.join(","))
    end

    def self.make_identity(**settings)
      Dir.mktmpdir("gyre") do |folder|
        certificate, key = Certificates.new(folder).issue("server", **settings)
        { cert: File.read(certificate), key: File.read(key) }
      end
    end
    private_class_method :make_identity

    # A client's TLS by Ruby's openssl, with the methods of a socket that Client calls.
    class TLSSocket
      def initialize(socket, context = OpenSSL::SSL::SSLContext.new)
        @socket = socket
        @tls = OpenSSL::SSL::SSLSocket.new(socket, context)
        @tls.sync_close = true
        @bytes = +""
        shake
      end

      # The next step of the handshake, as far as bytes for it are there.
      def shake
        @tls.connect_nonblock(exception: false)
      end

      # The rest of the handshake.
      def connect
        @tls.connect
        self
      end

      def write(bytes)
        @tls.write(bytes)
      end

      def wait_readable(seconds)
        deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
        while @bytes.empty? && !@ended
          piece = @tls.read_nonblock(65_536, exception: false)
          if piece == :wait_readable
            left = deadline - Process.clock_gettime(Process::CLOCK_MONOTONIC)
            return if left.negative? || !@socket.wait_readable(left)
          else
            piece ? @bytes << piece : @ended = EOFError.new
          end
        end
        self
      rescue OpenSSL::SSL::SSLError, Errno::ECONNRESET
        @ended = Errno::ECONNRESET.new("the connection was cut")
        self
      end

      def readpartial(length)
        wait_readable(PATIENCE_S)
        raise @ended || "nothing came" if @bytes.empty?

        @bytes.slice!(0, length)
      end

      def close
        @tls.close
      end

      def closed?
        @socket.closed?
      end

      # Closes without an end of TLS.
      def abandon
        @socket.close
      end

      def peer_certificate
        @tls.peer_cert
      end

      def setsockopt(...)
        @socket.setsockopt(...)
      end
    end

    # What the server's thread holds.
    class Served
      attr_reader :errors, :port, :accesses, :listener
      attr_accessor :server, :scheduler

      def initialize(listener, path, buffers, tls)
        @tls = tls
        @listener = listener
        @buffers = buffers
        @port = listener.local_address.ip_port unless path
        @path = path
        @jobs = Thread::Queue.new
        @errors = []
        @accesses = []
      end

      # The server's log.
      def error(message)
        @errors << message
      end

      # The server's access log.
      def log(*entry)
        @accesses << entry
      end

      def socket
        @tls ? TLSSocket.new(plain_socket).connect : plain_socket
      end

      def plain_socket
        return UNIXSocket.new(@path) if @path

        socket = Socket.new(:INET, :STREAM)
        HTTPServing.limit_buffers(socket, @buffers)
        socket.setsockopt(:TCP, :NODELAY, true)
        socket.connect(Addrinfo.tcp("127.0.0.1", @port))
        socket
      rescue SystemCallError
        socket&.close
        raise
      end

      def stats
        server.stats
      end

      def used
        server.used
      end

      # Runs the block in a fiber of the server's loop.
      def on_loop(&block)
        result = Thread::Queue.new
        @jobs << [block, result]
        value = result.pop
        value.is_a?(Exception) ? raise(value) : value
      end

      # The rest of the server's thread's life.
      def run_jobs
        while (block, result = @jobs.pop)
          result << begin
            block.call
          rescue StandardError => error
            error
          end
        end
      end

      def finish
        @jobs.close
      end

      def close_listener
        on_loop { @listener.close }
      end
    end

    # The client's end of one connection.
    class Client
      attr_reader :socket, :bytes

      def initialize(test, socket)
        @test = test
        @socket = socket
        @bytes = String.new
      end

      def write(*parts)
        parts.each { |part| @socket.write(part) }
        self
      end
      alias << write

      # A request with the fields that it needs.
      def request(line = "GET / HTTP/1.1", body = "", **fields)
        fields = { host: "gyre.test" }.merge(fields)
        write("#{line}\r\n#{fields.map { |name, value| "#{name.to_s.tr("_", "-")}: #{value}\r\n" }.join}\r\n#{body}")
      end

      def response(head_only: false, interim: false)
        head = take_through("\r\n\r\n")
        lines = head.split("\r\n")
        status = Integer(lines.shift[%r{\AHTTP/1\.1 (\d{3}) }, 1])
        fields = lines.map { |line| line.split(": ", 2) }
        response = Response.new(status, fields, +"", head)
        return interim ? response : self.response(head_only: head_only) if status.between?(100, 199) && status != 101

        response.body = body(response) unless head_only || [101, 204, 304].include?(status)
        response
      end

      def get(line = "GET / HTTP/1.1", body = "", head_only: line.start_with?("HEAD"), **fields)
        request(line, body, **fields).response(head_only: head_only)
      end

      def take(length)
        fill until @bytes.bytesize >= length
        @bytes.slice!(0, length)
      end

      def take_through(ending)
        fill until (index = @bytes.index(ending))
        @bytes.slice!(0, index + ending.bytesize)
      end

      # Everything up to the end of the connection.
      def rest
        nil while fill(ending: :ok)
        @bytes.slice!(0..-1)
      end

      # Returns whether the server ended the connection, and sent nothing more before.
      def ended?
        rest.empty?
      end

      # Returns whether the server cut the connection by a reset.
      def reset?
        nil while fill(ending: :ok)
        @reset
      end

      # Returns whether nothing comes for a moment.
      def silent?(seconds = 0.05)
        @bytes.empty? && !@socket.wait_readable(seconds)
      end

      def close
        @socket.close
      end

      # Closes with RST.
      def reset
        @socket.setsockopt(:SOCKET, :LINGER, [1, 0].pack("ii"))
        @socket.is_a?(TLSSocket) ? @socket.abandon : @socket.close
      end

      def chunk
        size = take_through("\r\n").to_i(16)
        return take_through("\r\n") && nil if size.zero?

        take(size).tap { take(2) }
      end

      private

      def fill(ending: :fails)
        unless @socket.wait_readable(PATIENCE_S)
          @test.flunk("the server sent nothing for #{PATIENCE_S} s; so far: #{@bytes.inspect[0, 500]}")
        end
        @bytes << @socket.readpartial(65_536)
        true
      rescue EOFError, Errno::ECONNRESET => error
        @reset = error.is_a?(Errno::ECONNRESET)
        ending == :ok ? nil : @test.flunk("the server closed; so far: #{@bytes.inspect[0, 500]}")
      end

      def body(response)
        if response["transfer-encoding"] == "chunked"
          body = +""
          while (piece = chunk)
            body << piece
          end
          body
        elsif response["content-length"]
          take(Integer(response["content-length"]))
        else
          rest
        end
      end
    end

    # Whether the clients speak HTTP/2 (http/h2/contract.rb).
    def http2?
      false
    end

    # Returns the Connection field of the last response on a connection.
    def connection_close
      http2? ? nil : "close"
    end

    # Whether the server and its clients speak TLS.
    def tls?
      false
    end

    # Serves while the block runs. The server's errors must be expected by the test: those that it
    # leaves in `served.errors` fail it.
    def serve(app = nil, limits: {}, unix: nil, log_accesses: false, backlog: 128, buffers: nil, more: [], identity: nil, **options)
      listener = unix ? UNIXServer.new(unix) : TCPServer.new("127.0.0.1", 0)
      HTTPServing.limit_buffers(listener, buffers)
      listener.listen(backlog)
      served = Served.new(listener, unix, buffers, tls?)
      options[:tls] = { listener => Gyre::TLS.server(**(identity || HTTPServing.identity)) } if tls?
      started = Thread::Queue.new
      options[:access_log] = served if log_accesses
      thread = Thread.new do
        run_server(served, [listener, *more], app, started, limits: Gyre::HTTP::Limits.new(**PATIENCE, **limits), log: served,
                                                                       early_hints: true, extended_connect: true, **options)
      end
      thread.report_on_exception = false
      thread.name = "server under test"
      failure = started.pop and raise failure
      @clients = []
      yield served
    ensure
      @clients&.each { |client| client.close unless client.socket.closed? }
      served&.finish
      thread&.join(PATIENCE_S) || (thread && flunk("the server's thread did not end: #{thread.backtrace&.first(5)}"))
      listener&.close
      assert_empty served.errors, "the server logged errors" if served && !$!
    end

    def connect(served)
      Client.new(self, served.socket).tap { |client| @clients << client }
    end

    # A response that refuses, in one plain line, and the end of the connection.
    def assert_refused(client, status, pattern = /./)
      response = client.response
      assert_equal [status, connection_close], [response.status, response["connection"]]
      assert_match(/\A[^\n]*#{pattern}[^\n]*\n\z/, response.body)
      assert client.ended? unless http2?
    end

    # Returns the block's value; false if a limit of time has ended the connection.
    def in_time?
      yield
    rescue Minitest::Assertion, OpenSSL::SSL::SSLError, SystemCallError
      false
    end

    # Runs the block on the server's loop, which stands still meanwhile.
    def hold(served, &block)
      served.on_loop { Fiber.new(blocking: true, &block).resume }
    end

    def get(served, line = "GET / HTTP/1.1", body = "", **fields)
      client = connect(served)
      client.get(line, body, **fields)
    ensure
      client&.close
    end

    # Takes the expected errors off the log.
    def expect_errors(served, *patterns)
      eventually(what: "the log's line number #{patterns.size}") { served.errors.size >= patterns.size }
      patterns.each_with_index { |pattern, index| assert_match pattern, served.errors[index] }
      served.errors.shift(patterns.size)
    end

    private

    def run_server(served, listeners, app, started, **options)
      served.scheduler = scheduler = Gyre::Scheduler.new
      Fiber.set_scheduler(scheduler)
      Fiber.schedule do
        served.server = Gyre::HTTP::Server.new(app, listeners: listeners, **options).start
        started << nil
        served.run_jobs
      rescue Exception => error # rubocop:disable Lint/RescueException
        started << error
      ensure
        served.server&.shutdown(0)
      end
      scheduler.run
    ensure
      started << nil
      Fiber.set_scheduler(nil)
    end
  end
end
