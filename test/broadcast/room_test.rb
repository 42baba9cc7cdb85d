# frozen_string_literal: true

# A burst in a room: reading clients get all messages, stuck clients are cut off, and the server's
# memory stays within its limit. A sample of a tenth; `rake test:realtime` has
# 1,000 reading clients, 100 stuck ones, and 20 MB (GYRE_ROOM).

require "test_helper"
require "http/contract"
require "websocket/serving"
require "gyre/broadcast"

module BroadcastRoom
  include GyreTest::WebSocketServing

  READERS = Integer(ENV.fetch("GYRE_ROOM", "100"))
  STUCK = READERS / 10
  MESSAGE = "x" * 50_000
  MESSAGES = READERS * 20_000 / MESSAGE.bytesize
  LIMIT_BYTES = READERS * 20_000 # of unsent output, as much as the burst

  # Opens sockets, says so, reads what comes, and tells when all have as many bytes; ends with the
  # status 0 if none was closed until then.
  CLIENTS = <<~'RUBY'
    require "socket"
    port, readers, stuck, bytes = ARGV.map(&:to_i)
    join = lambda do |path|
      socket = TCPSocket.new("127.0.0.1", port)
      socket.write("GET #{path} HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n" \
                   "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
      nil until socket.gets == "\r\n"
      socket.read(4) == "\x81\x02in".b ? socket : abort("no greeting")
    end
    left = Array.new(readers) { join["/reader"] }.to_h { |socket| [socket, 0] }
    kept = [*left.keys, *Array.new(stuck) { join["/stuck"] }]
    puts "in"
    $stdout.flush
    buffer = +""
    until left.empty?
      IO.select(left.keys).first.each do |socket|
        got = socket.read_nonblock(1 << 20, buffer, exception: false)
        next if got == :wait_readable

        abort("a reader was cut off") unless got
        left.delete(socket) if (left[socket] += got.bytesize) >= bytes
      end
    end
    puts "all"
    $stdout.flush
    $stdin.read
  RUBY

  def app(env)
    limits = { backlog_bytes_limit: [LIMIT_BYTES / 4, 1 << 20].min, backlog_timeout_s: env["PATH_INFO"] == "/stuck" ? 0.3 : 120 }
    Gyre::WebSocket.open(env, **limits) do |socket|
      Gyre::Broadcast.subscribe("room", socket)
      socket.write("in")
      socket.read
    end
  end

  def test_a_burst_reaches_all_that_read_and_cuts_all_that_do_not_within_the_memory
    Process.setrlimit(:NOFILE, [READERS * 3, *Process.getrlimit(:NOFILE)].sort[1]) if READERS > 300
    serve(method(:app), buffers: 100_000, limits: { output_bytes_limit: LIMIT_BYTES, connections_limit: READERS * 2 }) do |served|
      bytes = MESSAGES * Gyre::WebSocket.frame(MESSAGE, 0).bytesize
      clients = IO.popen(ruby_command("-e", CLIENTS, *[served.port, READERS, STUCK, bytes].map(&:to_s)), "r+")
      assert_equal "in\n", clients.gets
      most = 0
      served.on_loop do
        MESSAGES.times do
          Gyre::Broadcast.publish("room", MESSAGE)
          most = [most, served.used[:output]].max
        end
      end
      assert_equal "all\n", clients.gets
      eventually(what: "#{STUCK} are cut") { served.on_loop { Gyre::Broadcast.publish("room", "end") } == READERS }
      assert_equal STUCK, served.on_loop { served.server.stats[:slow_sockets] }
      assert_operator most, :<, LIMIT_BYTES + (1 << 20)
    ensure
      clients&.close
    end
  end
end

GyreTest::HTTPContract.run(BroadcastRoom, over: %i[http1], backends: GyreTest::Engines::NATIVE.first(1))
