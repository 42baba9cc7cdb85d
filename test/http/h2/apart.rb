# frozen_string_literal: true

# A server in a process of its own, so that its memory and its time on the processor can be read,
# and what floods it. Run as a program it is the server; its arguments are limits. No test itself.

if $PROGRAM_NAME == __FILE__
  require "gyre"
  require "gyre/http"
  require "json"
  require "socket"
  PIECE = ("x" * 65_536).freeze
  WHOLE = (PIECE * 64).freeze
  begun = 0
  ended = 0
  stats = nil
  app = lambda do |env|
    begun += 1
    case env["PATH_INFO"]
    when "/stats"
      memory = File.read("/proc/self/statm").split[1].to_i * 4096
      [200, {}, [JSON.generate(stats.call.merge(begun: begun, ended: ended, memory: memory))]]
    when "/pieces" then [200, {}, Array.new(64, PIECE).each]
    when "/whole" then [200, {}, [WHOLE]]
    when "/sleep" then sleep(60).then { [200, {}, []] }
    when "/stress" then (GC.stress = true) && [200, {}, []]
    when %r{\A/echo} then [200, {}, [env["PATH_INFO"], env["rack.input"].read].each]
    else
      while env["rack.input"].read(65_536); end
      [200, {}, ["hello"]]
    end
  ensure
    ended += 1
  end
  limits = ARGV.to_h { |text| text.split("=").then { |name, value| [name.to_sym, value.include?(".") ? Float(value) : Integer(value)] } }
  listener = TCPServer.new("127.0.0.1", 0)
  Gyre.run do
    server = Gyre::HTTP::Server.new(app, listeners: [listener], limits: Gyre::HTTP::Limits.new(**limits)).start
    stats = -> { server.stats }
    $stdout.syswrite("#{listener.local_address.ip_port}\n")
    sleep
  end
  exit
end

require "json"
require "support/h2_client"

module GyreTest
  # For test classes: such a server, and floods.
  module H2Apart
    # How a server that takes nothing more from a flood shows itself.
    STALL_S = 1.0

    # A running server and what it has used.
    class Server
      attr_reader :errors

      def initialize(test, pid, port, errors)
        @test = test
        @pid = pid
        @port = port
        @errors = errors
      end

      def socket
        TCPSocket.new("127.0.0.1", @port).tap { |socket| socket.setsockopt(:TCP, :NODELAY, true) }
      end

      def connect(**options)
        H2Client.new(@test, socket, **options)
      end

      # Returns the server's counts and its memory in bytes, asked over HTTP/1.1.
      def stats
        TCPSocket.open("127.0.0.1", @port) do |plain|
          plain.write("GET /stats HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
          JSON.parse(plain.read.split("\r\n\r\n", 2)[1], symbolize_names: true)
        end
      end

      def processor_s
        File.read("/proc/#{@pid}/stat").split(") ")[1].split.values_at(11, 12).sum(&:to_i) / 100.0
      end
    end

    # What a flood met. outcome: :ended, :stalled (the server reads no more), :taken (all of it was
    # taken).
    Flood = Struct.new(:outcome, :error, :sent, :memory, :processor_s, :stats)

    def serve_apart(**limits)
      command = ruby_command("--disable-gems", File.expand_path("apart.rb", __dir__), *limits.map { |name, value| "#{name}=#{value}" })
      with_subprocess(*command) do |pid, out, err|
        port = Integer(out.gets || flunk("the server did not start: #{err.read}"))
        yield Server.new(self, pid, port, err)
      end
    end

    # Floods a connection with what the block returns, beside another one that goes on being served.
    def flood(server, first: "", reads: true, most_bytes: 2 << 20, settings: {}, &block)
      client = server.connect(settings: settings)
      client.greet.write(first)
      client.obliging = false
      2.times { server.stats } # what is made once is there
      before = [server.stats[:memory], server.processor_s]
      outcome, sent = beside(server) { pour(client, reads, most_bytes, &block) }
      outcome = :ended if outcome == :taken && client.ended_before_ping? # what came meanwhile was read off
      stats = server.stats
      Flood.new(outcome, nil, sent, stats[:memory] - before[0], server.processor_s - before[1], stats).tap do |flood|
        flood.error = client.failure if outcome == :ended
      end
    ensure
      client&.close
    end

    # Asserts what bounds a flood.
    def assert_bounded(flood, *errors, memory: 12 << 20, processor_s: 1.0)
      assert_operator flood.memory, :<, memory, "bytes of memory; #{flood}"
      assert_operator flood.processor_s, :<, processor_s, "seconds of the processor; #{flood}"
      assert_equal :ended, flood.outcome, flood.to_s unless errors.empty?
      assert_includes errors, flood.error, flood.to_s unless errors.empty?
    end

    private

    # Runs the block while another client asks again and again.
    def beside(server)
      over = false
      bystander = Thread.new do
        other = server.connect
        served = 0
        until over && served.positive?
          raise "the other client was not served" unless other.get.status == 200

          served += 1
        end
        other.close
      end
      bystander.report_on_exception = false
      yield
    ensure
      over = true
      bystander&.join
    end

    # Returns the outcome and the bytes sent.
    def pour(client, reads, most_bytes)
      socket = client.socket
      pending = +""
      sent = number = 0
      while sent < most_bytes
        pending << yield(number).tap { number += 1 } while pending.bytesize < 65_536
        return [:ended, sent] if reads && !client.take_in

        written = socket.write_nonblock(pending, exception: false)
        if written == :wait_writable
          ready = IO.select(reads ? [socket] : nil, [socket], nil, STALL_S) or return [:stalled, sent]
          next if ready
        end
        sent += written
        pending = pending.byteslice(written..)
      end
      [:taken, sent]
    rescue Errno::EPIPE, Errno::ECONNRESET
      [:ended, sent]
    end
  end
end
