# frozen_string_literal: true

# Thousands of WebSockets and event streams of two workers whose clients connect, talk and vanish in
# every way: answers stay right, neither memory nor descriptors grow, and in the end all counters
# are where they began. `rake test:churn` runs it (SECONDS=600, SOCKETS=5000).

require "test_helper"
require "support/processes"
require "web/serving"
require "websocket/serving"

class WebSocketChurnTest < Minitest::Test
  include GyreTest::Serving

  SECONDS = Integer(ENV.fetch("SECONDS", "600"))
  SOCKETS = Integer(ENV.fetch("SOCKETS", "5000"))
  AT_ONCE = 50 # opened before the first response is read
  # Parts of the time in which memory is compared, and what it may grow by: a short run warms up.
  FORMER = (0.5..0.75).freeze
  LATTER = (0.75..1.0).freeze
  GROWTH = 1.05
  FILES = 2 # that a worker may open later for itself
  GROWTH_BYTES = (320 << 20) / SECONDS

  APP = <<~'RUBY'
    require "gyre/broadcast"

    class Room
      def on_open(socket) = Gyre::Broadcast.subscribe("room #{rand(1000)}", socket, as: rand(1000))

      def on_message(socket, message)
        case message
        when "publish" then Gyre::Broadcast.publish("room #{rand(1000)}", "news")
        when "disconnect" then Gyre::Broadcast.disconnect(rand(1000))
        end
        socket.write(message)
      end

      def on_close(_socket) = nil
    end

    run(lambda do |env|
      case env["PATH_INFO"]
      when "/handler" then Gyre::WebSocket.open(env, Room.new, compress: true, address_limit: 100_000)
      when "/fiber" then Gyre::WebSocket.open(env, compress: :takeover) { |socket| socket.each { |message| socket.write(message) } }
      when "/topics" then Gyre::SSE.open(env, topics: ["room #{rand(1000)}"])
      else
        Gyre::SSE.open(env, heartbeat_s: 2) do |events|
          Gyre::Broadcast.subscribe("room #{rand(1000)}", events)
          events.listen
        end
      end
    end)
  RUBY
  PATHS = %w[/handler /handler /handler /fiber /topics /events].freeze
  HEAD = "host: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n" \
         "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
  FRAME = GyreTest::WebSocketServing.method(:frame)
  TALK = { "hello" => 8, "publish" => 4, "disconnect" => 1, "x" * 5_000 => 1 }.flat_map { |text, times| [text] * times }.freeze

  # How a client leaves: what it sends last, and whether a reset follows.
  ENDS = [["", true], ["", false], [FRAME[8, [1000].pack("n")], false], [FRAME[1, "half of it"][0, 7], true],
          ["\xff\xff\xff\xff".b, false], [FRAME[9, "p"] * 50, true], [FRAME[1, "hello"] * 20, true], [FRAME[1, "\xff"], false]].freeze

  # Gauges that are zero while the server has no client.
  OPEN = /\Agyre_(?:websockets|http_connections|http_buffered_bytes)(?:\{|\z)/.freeze

  Client = Struct.new(:socket, :path) do
    def talks? = %w[/handler /fiber].include?(path)
  end

  def test_nothing_grows_and_all_counters_end_where_they_began
    @random = Random.new(Minitest.seed)
    @samples = []
    @clients = []
    @opened = @talked = 0
    serve("-w", "2", "--metrics", "unix://metrics.sock", "--access-log", "/dev/null", app: APP) do |program|
      @port = program.port
      files = workers(program).to_h { |pid| [pid, files(pid) + FILES] }
      churn(program)
      @clients.each { |client| client.socket.close }
      settles("what is open", {}) { counts(program).select { |name, value| OPEN.match?(name) && value.positive? } }
      settles("descriptors too many", {}) { files.map { |pid, most| [pid, files(pid) - most] }.to_h.select { |_, more| more.positive? } }
      check(counts(program))
      program.signal(:TERM)
      assert_equal [0, ""], [program.status.exitstatus, program.text(:err)]
    end
  end

  private

  def churn(program)
    open_some(AT_ONCE) while @clients.size < SOCKETS
    began_s = sampled_s = monotonic_s
    while (part = (monotonic_s - began_s) / SECONDS) < 1
      AT_ONCE.times { act(@random.rand(@clients.size)) }
      open_some(SOCKETS - @clients.size)
      next if monotonic_s - sampled_s < 1

      sampled_s = monotonic_s
      workers(program).each { |pid| @samples << [part, pid, resident(pid)] }
    end
  end

  def settles(what, wanted)
    last = nil
    eventually(within_s: 60) { (last = yield) == wanted }
  ensure
    assert_equal wanted, last, what
  end

  def open_some(count)
    some = Array.new(count) { Client.new(TCPSocket.new("127.0.0.1", @port), PATHS.sample(random: @random)) }
    some.each { |client| client.socket.write("GET #{client.path} HTTP/1.1\r\n#{HEAD}") }
    some.each do |client|
      head = client.socket.gets("\r\n\r\n")
      assert_match(client.talks? ? /\AHTTP\S+ 101 / : /\AHTTP\S+ 200 /, head)
    end
    @opened += count
    @clients.concat(some)
  end

  # Talks more often than it leaves.
  def act(index)
    client = @clients[index]
    gone = @random.rand(4).zero? ? leave(client) : client.talks? && !talk?(client)
    return unless gone

    client.socket.close
    @clients[index] = @clients.last
    @clients.pop
  end

  # Whether the answer came, behind what was published; another client may have disconnected it.
  def talk?(client)
    client.socket.write(FRAME[1, text = TALK.sample(random: @random)])
    @talked += 1
    nil until (frame = receive(client.socket)).nil? || frame == text
    frame
  rescue Errno::EPIPE, Errno::ECONNRESET
    nil
  end

  # A message; nil after a close, which is 1008.
  def receive(socket)
    first, size = socket.read(2)&.unpack("CC")
    return if first.nil?

    size = socket.read(2).unpack1("n") if size == 126
    text = socket.read(size)
    return text if first == 0x81
    return receive(socket) if first == 0x89

    assert_equal [0x88, 1008], [first, text.unpack1("n")]
    nil
  end

  def leave(client)
    bytes, resets = ENDS.sample(random: @random)
    client.socket.write(bytes)
    client.socket.setsockopt(:SOCKET, :LINGER, [1, 0].pack("ii")) if resets
    true
  rescue Errno::EPIPE, Errno::ECONNRESET
    true # disconnected
  end

  def workers(program)
    GyreTest::Processes.children_of(program.pid).select { |pid| File.read("/proc/#{pid}/cmdline").start_with?("gyre: worker") }
  end

  def files(pid) = Dir.children("/proc/#{pid}/fd").size
  def resident(pid) = Integer(File.read("/proc/#{pid}/statm").split[1]) * 4096

  # Of all workers, by name.
  def counts(program)
    text = program.get("/metrics", socket: UNIXSocket.new(File.join(program.folder, "metrics.sock")))
    text.scan(/^(\w+(?:\{[^}]*\})?) (\S+)$/).to_h { |name, value| [name, value.to_f] }
  end

  def check(counts)
    puts "churn: #{@opened} opened, #{@talked} messages, #{counts["gyre_websockets_opened_total"].to_i} sockets and streams counted"
    @samples.group_by { |sample| sample[1] }.each do |pid, samples|
      former, latter = [FORMER, LATTER].map do |range|
        bytes = samples.select { |part, *| range.cover?(part) }.map(&:last)
        bytes.sum / [bytes.size, 1].max
      end
      puts format("  worker %s: %.1f MB, then %.1f", pid, former / 1e6, latter / 1e6)
      assert_operator latter, :<=, (former * GROWTH) + GROWTH_BYTES, "memory of worker #{pid}"
    end
  end
end
