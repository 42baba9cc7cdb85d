# frozen_string_literal: true

# Name servers for tests, on free ports of 127.0.0.1: Debian's dnsmasq, and one in a thread whose
# replies a block makes, over UDP and TCP at the same port.
require "socket"
require "tempfile"
require "gyre/dns/message"

module GyreTest
  module NameServers
    # Changes to a good reply about example.org, by name; each makes it invalid. The other id has
    # the same place in a forwarder's table.
    FORGERIES = {
      "another id" => ->(good) { [good.unpack1("n") ^ 1024].pack("n") + good.byteslice(2..) },
      "another question" => ->(good) { good.sub(/example/i, "exbmple") },
      "another type" => ->(good) { good.dup.tap { |bytes| bytes.setbyte(12 + 13 + 1, 28) } },
      "a query" => ->(good) { good.dup.tap { |bytes| bytes.setbyte(2, bytes.getbyte(2) & 0x7f) } },
      "another opcode" => ->(good) { good.dup.tap { |bytes| bytes.setbyte(2, bytes.getbyte(2) | 0x20) } },
      "two questions" => ->(good) { good.dup.tap { |bytes| bytes.setbyte(5, 2) } },
      "no question" => ->(good) { good.dup.tap { |bytes| bytes.setbyte(5, 0) } },
      "half a header" => ->(good) { good.byteslice(0, 7) },
      "nothing" => ->(_) { "" }
    }.freeze

    # Yields its address while it runs.
    def with_dnsmasq(*arguments)
      port = free_port
      user = Process.uid.zero? ? ["--user=root"] : []
      dnsmasq = [{ "LD_PRELOAD" => nil }, need_program("dnsmasq")] # a sanitizer that this run is under is not for dnsmasq
      with_subprocess(*dnsmasq, "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--pid-file=",
                      "--port=#{port}", "--listen-address=127.0.0.1", "--bind-interfaces", "--local-ttl=30", *user, *arguments) do
        eventually(what: "dnsmasq's answer") { open?(port) }
        yield "127.0.0.1:#{port}"
      end
    end

    # The block gets each query's bytes (and :udp or :tcp, if it takes two), and returns a reply, an
    # Array of them (and of Procs to call between), or nil.
    def scripted(&block)
      server = Scripted.new(&block)
      (@scripted ||= []) << server
      server
    end

    def close_scripted
      @scripted&.each(&:close)
    end

    # A reply to a query: records as in "example.org 60 A 192.0.2.1".
    def reply_to(bytes, *records, rcode: 0, authority: [], flags: Gyre::DNS::Message::RA)
      query = Gyre::DNS::Message.parse(bytes)
      sections = [records, authority, []].map { |texts| texts.map { |text| record(text) } }
      Gyre::DNS::Message.new(query.id, Gyre::DNS::Message::QR | Gyre::DNS::Message::RD | flags, rcode: rcode, questions: query.questions,
                                                                                                 sections: sections).encode
    end

    def record(text)
      name, ttl, type, *data = text.split
      Gyre::DNS::Record.for(name, ttl.to_i, resource(type, data))
    end

    def name_of(bytes) = Gyre::DNS::Message.parse(bytes).questions.first.name.downcase
    def type_of(bytes) = Gyre::DNS::Message.parse(bytes).questions.first.type

    private

    def resource(type, data)
      data = data.map { |word| word.match?(/\A\d+\z/) ? word.to_i : Resolv::DNS::Name.create("#{word}.") } if %w[CNAME SOA MX].include?(type)
      Resolv::DNS::Resource::IN.const_get(type).new(*data)
    end

    def open?(port)
      TCPSocket.new("127.0.0.1", port).close
      true
    rescue Errno::ECONNREFUSED
      false
    end

    # A server in threads.
    class Scripted
      attr_reader :port
      # Bytes of the queries that came.
      attr_reader :queries
      # Ports of the clients, over UDP.
      attr_reader :ports
      # Connections accepted.
      attr_reader :connections

      def initialize(&block)
        @block = block
        @queries = []
        @ports = []
        @connections = 0
        @udp = UDPSocket.new
        @tcp = TCPServer.new("127.0.0.1", 0)
        @port = @tcp.local_address.ip_port
        @udp.bind("127.0.0.1", @port)
        @sockets = []
        @threads = [Thread.new { serve_udp }, Thread.new { serve_tcp }]
        @threads.each { |thread| thread.report_on_exception = false }
      rescue Errno::EADDRINUSE
        [@udp, @tcp].each(&:close)
        retry
      end

      def address = "127.0.0.1:#{@port}"

      def refuse_tcp
        @threads.pop.kill.join
        @tcp.close
      end

      # Sends a packet from another port.
      def forge(bytes, port)
        UDPSocket.open { |socket| socket.send(bytes, 0, "127.0.0.1", port) }
      end

      # Sends no more, and reads on.
      def end_connections = @sockets.each { |socket| socket.close_write rescue IOError }

      # A client that connects again at once keeps its new connection.
      def close_connections
        closing, @sockets = @sockets, []
        closing.each(&:close)
        true
      end

      def close
        @threads.each(&:kill).each(&:join)
        [@udp, @tcp, *@sockets].each(&:close)
      end

      private

      def answer(bytes, over, port = nil)
        @queries << bytes
        Array(@block.call(*[bytes, over, port].take(@block.arity))).each { |reply| reply.is_a?(Proc) ? reply.call : yield(reply) }
      end

      def serve_udp
        loop do
          bytes, from = @udp.recvfrom(65_535)
          @ports << from[1]
          answer(bytes, :udp, from[1]) { |reply| @udp.send(reply, 0, from[3], from[1]) }
        end
      end

      def serve_tcp
        loop do
          socket = @tcp.accept
          @connections += 1
          @sockets << socket
          @threads << Thread.new { converse(socket) }
        end
      end

      def converse(socket)
        while (length = socket.read(2)&.unpack1("n")) && (bytes = socket.read(length))
          answer(bytes, :tcp) { |reply| socket.write([reply.bytesize].pack("n") + reply) }
        end
      rescue SystemCallError, IOError
        nil # the client is gone
      end
    end
  end
end
