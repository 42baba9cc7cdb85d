# frozen_string_literal: true

# An HTTP/2 client for tests, over a plain socket or TLS, that sees each frame and can send any
# bytes. `get` and `response` are called as those of the HTTP/1 client (http/serving.rb), so that a
# contract's cases run over both. It has no thread: it reads while it waits for something. No test
# itself.

require "io/wait"
require "socket"
require "openssl"
require_relative "h2_frames"

module GyreTest
  # One connection.
  class H2Client
    PATIENCE_S = Float(ENV.fetch("GYRE_TEST_LIMIT_S", "120")) / 4

    # What came on a stream.
    Response = Struct.new(:status, :fields, :body, :trailers, :interims) do
      # Returns the values of a field, joined.
      def [](name)
        values = fields.filter_map { |field, value| value if field == name.downcase }
        values.join(", ") unless values.empty?
      end

      # Returns how often a field was sent.
      def count(name)
        fields.count { |field, _| field == name.downcase }
      end
    end

    # A request and its response, both in pieces.
    class Stream
      attr_reader :id, :status, :fields, :trailers, :interims, :error, :frames
      # What may be sent of its body now.
      attr_accessor :window

      def initialize(client, id, window)
        @client = client
        @id = id
        @window = window
        @body = +""
        @interims = []
        @trailers = []
        @frames = []
        @ended = @given_up = false
      end

      # Sends body as far as the server's windows allow, and waits for them.
      def write(bytes, end_stream: false)
        at = 0
        loop do
          most = [@client.max_frame_bytes, bytes.bytesize - at].min
          @client.wait("room for the body of stream #{@id}") { @error || most.zero? || room.positive? }
          return self if @error

          piece = bytes.byteslice(at, [most, room].min)
          at += piece.bytesize
          @client.spend(self, piece.bytesize)
          @client.write(H2.data(@id, piece, end_stream: end_stream && at == bytes.bytesize))
          return self if at == bytes.bytesize
        end
      end

      # Ends the request, perhaps with trailers.
      def finish(trailers = nil)
        @client.write(trailers ? H2.headers(@id, trailers) : H2.data(@id))
        self
      end

      def reset(error = :cancel)
        @given_up = true
        @client.write(H2.rst_stream(@id, error))
        self
      end

      # Waits for the final head.
      def head
        @client.wait("the head of stream #{@id}") { @status || @error }
        self
      end

      # Waits for a piece of the body.
      def read
        @client.wait("body of stream #{@id}") { over? || !@body.empty? }
        @body.slice!(0..) unless @body.empty?
      end

      # Returns what came of the body and was not taken yet.
      def received = @body

      # Waits for so many bytes of the body.
      def take(length)
        @client.wait("#{length} bytes of stream #{@id}") { over? || @body.bytesize >= length }
        @body.slice!(0, length)
      end

      # Waits for the end.
      def response
        @client.wait("the end of stream #{@id}") { over? }
        @client.test.flunk("stream #{@id} was reset: #{@error}; #{@client}") if @error && !(@ended && @error == :no_error)
        Response.new(@status, @fields, @body, @trailers, @interims)
      end

      # Waits for the end by the server's RST_STREAM.
      def failure
        @client.wait("a reset of stream #{@id}") { @error }
        @error
      end

      def [](name)
        @fields.filter_map { |field, value| value if field == name }.join(", ") if @fields&.assoc(name)
      end

      def ended? = @ended
      def over? = @ended || @given_up || !@error.nil?

      # For the client: a frame of this stream.
      def receive(frame)
        @frames << frame
        case frame.type
        when :data then @body << frame.content
        when :rst_stream then @error = frame.error
        end
        @ended = true if frame.type == :data && frame.end_stream?
      end

      # For the client: a header block of this stream.
      def receive_fields(fields, last)
        @ended = true if last
        status = fields.assoc(":status")&.last.to_i
        fields = fields.reject { |name, _| name == ":status" }
        if status.between?(100, 199) then @interims << [status, fields]
        elsif @status then @trailers = fields
        else
          @status = status
          @fields = fields
        end
      end

      def fail(error)
        @error ||= error unless @ended
      end

      private

      def room
        [@window, @client.window].min
      end
    end

    attr_reader :test, :socket, :frames, :window, :settings, :streams, :goaway, :max_frame_bytes
    # False: the windows of the server stay as they are, and PINGs are not answered.
    attr_accessor :obliging

    # A connection over TLS to a server that is asked for h2.
    def self.tls(plain, alpn: ["h2"])
      context = OpenSSL::SSL::SSLContext.new
      context.alpn_protocols = alpn
      OpenSSL::SSL::SSLSocket.new(plain, context).tap do |socket|
        socket.sync_close = true
        socket.connect
      end
    end

    def initialize(test, socket, settings: {}, scheme: socket.is_a?(OpenSSL::SSL::SSLSocket) ? "https" : "http")
      @test = test
      @socket = socket
      @scheme = scheme
      @bytes = String.new
      @ahead = String.new
      @decoder = HPACK::Decoder.new(settings&.fetch(:header_table_size, 4096) || 4096)
      @streams = {}
      @frames = []
      @pending = []
      @next_id = 1
      @settings = {}
      @window = @initial_window = H2::WINDOW
      @max_frame_bytes = 16_384
      @block = nil
      @obliging = true
      write(H2::PREFACE, H2.settings(**settings)) if settings
    end

    # Sends bytes as they are. What the server does not take any more is lost, as it is told by what
    # it sent before.
    def write(*parts)
      @socket.write(parts.map(&:b).join)
      self
    rescue Errno::EPIPE, Errno::ECONNRESET, OpenSSL::SSL::SSLError, IOError
      self
    end
    alias << write

    # @!group Requests and responses

    def get(line = "GET / HTTP/1.1", body = "", trailers: nil, head_only: nil, **fields) # rubocop:disable Lint/UnusedMethodArgument
      request(line, body, trailers: trailers, **fields)
      response
    end

    def post(path, body = "", trailers: nil, **fields)
      get("POST #{path}", body, trailers: trailers, **fields)
    end

    # A request whose response {#response} takes.
    def request(line = "GET / HTTP/1.1", body = "", trailers: nil, **fields)
      stream = open(line, end_stream: body.empty? && !trailers, **fields)
      stream.write(body, end_stream: !trailers) unless body.empty?
      stream.finish(trailers) if trailers
      @pending << stream
      self
    end

    def response(*)
      @pending.shift.response
    end

    # Begins a request, or sends all of one without a body.
    def open(line = "GET / HTTP/1.1", end_stream: false, **fields)
      method, path = line.split
      authority = fields.delete(:host) || "gyre.test"
      list = H2.request(method, path, scheme: @scheme, authority: authority)
      fields.each { |name, values| Array(values).each { |value| list << [name.to_s.tr("_", "-"), value.to_s] } }
      open_fields(list, end_stream: end_stream)
    end

    # The same with all fields given.
    def open_fields(fields, end_stream: true, **options)
      stream = stream(@next_id)
      @next_id += 2
      write(H2.headers(stream.id, fields, end_stream: end_stream, **options))
      stream
    end

    def stream(id)
      @streams[id] ||= Stream.new(self, id, @initial_window)
    end

    # @!endgroup
    # @!group Frames

    # Returns the next one, after the client has heeded it; nil at the end of the connection.
    def next_frame(within_s: PATIENCE_S)
      frame = take_frame(within_s)
      heed(frame) if frame
      frame
    end

    # Reads until the block is true.
    def wait(what = "it", within_s: PATIENCE_S)
      until (result = yield)
        next_frame(within_s: within_s) || @test.flunk("the connection ended before #{what}: #{self}")
      end
      result
    end

    # Returns the first one of a type, of those to come.
    def wait_frame(type, within_s: PATIENCE_S)
      while (frame = next_frame(within_s: within_s))
        return frame if frame.type == type
      end
      @test.flunk("the connection ended before #{type}: #{self}")
    end

    # Waits for the server's SETTINGS and for its acknowledgement of ours.
    def greet
      wait("the server's SETTINGS") { [false, true].all? { |ack| @frames.any? { |frame| frame.type == :settings && frame.ack? == ack } } }
      self
    end

    # All that was sent has been heeded by the server when this returns.
    def synchronize(opaque = "in order")
      write(H2.ping(opaque))
      wait("the answer to a PING") { @frames.any? { |frame| frame.type == :ping && frame.ack? && frame.payload == opaque } }
      @frames.delete_if { |frame| frame.type == :ping && frame.payload == opaque }
      self
    end

    # Reads to the end of the connection.
    def failure
      nil while next_frame
      @goaway&.error
    end

    # Returns whether the server has ended the connection, and sent no more than settings and a
    # GOAWAY before.
    def ended?
      failure
      (@frames.map(&:type) - %i[settings ping goaway window_update]).empty?
    end

    # Returns whether the server cut the connection by a reset.
    def reset?
      nil while next_frame
      @end == :reset
    end

    # Takes what is there without heeding it.
    def take_in
      loop do
        piece = @socket.read_nonblock(65_536, exception: false)
        return true if piece == :wait_readable

        piece ? @ahead << piece : @end = :closed
        return false if @end
      end
    rescue Errno::ECONNRESET
      @end = :reset
      false
    end

    # Returns whether the connection's end comes, and no answer to a PING.
    def ended_before_ping?
      write(H2.ping("still on"))
      while (frame = next_frame)
        return false if frame.type == :ping && frame.payload == "still on"
      end
      true
    end

    # Returns whether nothing comes for a moment.
    def silent?(seconds = 0.05)
      @bytes.empty? && @ahead.empty? && !readable?(seconds)
    end

    # @!endgroup

    # For a stream: bytes of its body go out.
    def spend(stream, length)
      @window -= length
      stream.window -= length
    end

    def close
      @socket.close
    end

    def closed?
      plain.closed?
    end

    # Ends what the client sends; over TLS by close_notify.
    def finish
      @socket.is_a?(OpenSSL::SSL::SSLSocket) ? @socket.__send__(:stop) : @socket.close_write
    rescue SystemCallError, OpenSSL::SSL::SSLError
      nil # the server was first
    end

    # Closes with RST.
    def reset
      plain.setsockopt(:SOCKET, :LINGER, [1, 0].pack("ii"))
      plain.close
    end

    # For failures.
    def to_s
      last = @frames.last(12).join(", ")
      "received #{@frames.size} frames#{": #{last}" unless @frames.empty?}#{", then #{@end}" if @end}"
    end

    private

    def plain
      @socket.to_io
    end

    def take_frame(within_s)
      head = bytes(H2::HEADER_BYTES, within_s) or return
      high, low, type, flags, stream = head.unpack("nCCCN")
      payload = bytes(high << 8 | low, within_s) or return
      H2::Frame.new(H2::TYPES[type] || type, flags, stream & H2::WINDOW_MOST, payload).tap { |frame| @frames << frame }
    end

    def bytes(length, within_s)
      fill(within_s) || return until @bytes.bytesize >= length
      @bytes.slice!(0, length)
    end

    def fill(within_s)
      @test.flunk("the server sent nothing for #{within_s} s: #{self}") unless readable?(within_s)
      return false if @ahead.empty?

      @bytes << @ahead
      @ahead.clear
      true
    end

    # Whether bytes or the end are there, within that time. Over TLS that is known only after
    # reading.
    def readable?(seconds)
      deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
      while @ahead.empty? && @end.nil?
        piece = @socket.read_nonblock(65_536, exception: false)
        if piece == :wait_readable
          left = deadline - Process.clock_gettime(Process::CLOCK_MONOTONIC)
          return false if left.negative? || !plain.wait_readable(left)
        else
          piece ? @ahead << piece : @end = :closed
        end
      end
      true
    rescue Errno::ECONNRESET, OpenSSL::SSL::SSLError
      @end = :reset
      true
    end

    def heed(frame)
      case frame.type
      when :settings then frame.ack? || take_settings(frame)
      when :ping then write(H2.ping(frame.payload, ack: true)) if @obliging && !frame.ack?
      when :goaway then take_goaway(frame)
      when :window_update then widen(frame)
      when :headers, :continuation then take_block(frame)
      end
      return unless frame.stream.positive?

      stream(frame.stream).receive(frame)
      give_window(frame) if frame.type == :data && @obliging
    end

    def take_settings(frame)
      @settings.merge!(frame.settings)
      if (window = frame.settings[:initial_window_size])
        @streams.each_value { |stream| stream.window += window - @initial_window }
        @initial_window = window
      end
      @max_frame_bytes = frame.settings.fetch(:max_frame_size, @max_frame_bytes)
      write(H2.settings(ack: true))
    end

    def take_goaway(frame)
      @goaway = frame
      @streams.each_value { |stream| stream.fail(frame.error) if stream.id > frame.last_stream }
    end

    def widen(frame)
      increment = frame.payload.unpack1("N")
      frame.stream.zero? ? @window += increment : stream(frame.stream).window += increment
    end

    def take_block(frame)
      if frame.type == :headers
        @block = frame.content.b
        @block_is_last = frame.end_stream?
      else
        @block << frame.payload
      end
      stream(frame.stream).receive_fields(@decoder.decode(@block), @block_is_last) if frame.end_headers?
    end

    def give_window(frame)
      return if frame.length.zero?

      write(H2.window_update(0, frame.length))
      write(H2.window_update(frame.stream, frame.length)) unless stream(frame.stream).over?
    end
  end
end
