# frozen_string_literal: true

# Open WebSockets: messages both ways, slow sides, pings, ends, the server's stop, other threads.

require "test_helper"
require "http/contract"
require "websocket/serving"
require "gyre/broadcast"

module WebSocketSockets
  include GyreTest::WebSocketServing

  # Notes what it is called with.
  class Events
    attr_reader :all

    def initialize(&message)
      @all = Thread::Queue.new
      @message = message
    end

    def on_open(socket) = note(:open, socket.protocol)

    def on_message(socket, message)
      note(:message, message)
      @message&.call(socket, message)
    end

    def on_drained(_socket) = note(:drained)

    def on_close(socket) = note(:close, socket.code, socket.reason)

    def note(*event) = @all << event

    def pop = @all.pop
  end

  def test_text_and_binary_are_told_by_their_encoding
    kinds = Thread::Queue.new
    app = socket_app { |socket| socket.each { |message| kinds << message.encoding and socket.write(message) } }
    serve(app) do |served|
      peer = open_websocket(served)
      [[:text, "häh"], [:binary, "\xff\0".b], [:text, ""], [:binary, ""]].each do |kind, payload|
        peer.public_send(kind, payload)
        frame = peer.frame
        assert_equal [kind == :text ? 1 : 2, payload.b], [frame.opcode, frame.payload.b]
        assert_equal kind == :text ? Encoding::UTF_8 : Encoding::BINARY, kinds.pop
      end
    end
  end

  def test_limits_are_the_servers_unless_the_app_gives_its_own
    app = lambda do |env|
      own = env["PATH_INFO"] == "/own" ? { message_bytes_limit: 5 } : {}
      Gyre::WebSocket.open(env, **own) { |socket| socket.each { |message| socket.write(message) } }
    end
    serve(app, limits: { websocket_message_bytes_limit: 3 }) do |served|
      assert_equal 1009, open_websocket(served).text("four").closed.first
      peer = open_websocket(served, "/own")
      assert_equal "four", peer.text("four").frame.payload
      assert_equal 1009, peer.text("sixsix").closed.first
    end
  end

  def test_what_is_neither_text_nor_binary_is_refused
    raised = Thread::Queue.new
    app = socket_app do |socket|
      ["\xff", "x".encode("UTF-16LE"), nil].each { |message| raised << assert_raises(ArgumentError, TypeError) { socket.write(message) }.class }
    end
    serve(app) do |served|
      peer = open_websocket(served)
      assert_equal [1000, ""], peer.closed
      assert_equal [ArgumentError, ArgumentError, TypeError], Array.new(3) { raised.pop }
    end
  end

  def test_messages_of_one_turn_leave_in_order
    app = socket_app { |socket| socket.each { |message| Integer(message).times { |index| socket.write("#{index} #{"x" * (index * 37)}") } } }
    serve(app) do |served|
      peer = open_websocket(served)
      peer.text("200")
      200.times { |index| assert_equal "#{index} #{"x" * (index * 37)}", peer.message }
    end
  end

  def test_a_handler_is_called_in_order_and_may_wait
    order = Thread::Queue.new
    events = Events.new do |socket, message|
      sleep(0.01) if message == "slow"
      order << message
      socket.write(message)
    end
    serve(->(env) { Gyre::WebSocket.open(env, events, protocols: %w[b a]) }) do |served|
      peer = open_websocket(served, sec_websocket_protocol: "c, a,b")
      assert_equal "b", peer.handshake["sec-websocket-protocol"]
      %w[slow quick slow last].each { |message| peer.text(message) }
      assert_equal %w[slow quick slow last], Array.new(4) { peer.message }
      peer.close(4000, "dönner")
      assert_equal [4000, ""], peer.closed
      assert_equal [[:open, "b"], [:message, "slow"], [:message, "quick"], [:message, "slow"], [:message, "last"], [:close, 4000, "dönner"]],
        Array.new(6) { events.pop }
    end
  end

  def test_a_waiting_socket_without_a_reader_holds_no_fiber
    events = Events.new
    serve(->(env) { Gyre::WebSocket.open(env, events) }) do |served|
      peers = Array.new(5) { open_websocket(served) }
      5.times { assert_equal :open, events.pop.first }
      eventually { served.scheduler.stats[:tasks] == 1 } # the test's own
      peers.each { |peer| peer.text("hi") }
      5.times { assert_equal [:message, "hi"], events.pop }
      assert_equal 5, served.stats[:upgraded]
    end
  end

  # A session's fiber has run the handshake's request before. Counts stacks twice, as other threads
  # have some, too.
  def test_a_fiber_that_waits_keeps_no_stack_of_an_earlier_request
    skip "a sanitizer has mappings of a stack's size" if ENV["ASAN_OPTIONS"]
    deep = ->(depth) { depth.zero? ? "y" : "x".gsub("x") { deep.call(depth - 1) } }
    app = ->(env) { deep.call(90) && Gyre::WebSocket.open(env, &:read) }
    serve(app) do |served|
      GC.start
      before = used_stacks
      peers = Array.new(20) { open_websocket(served) }
      eventually { served.scheduler.stats[:tasks] == 21 }
      assert_operator used_stacks - before, :<, 10
      peers.each { |peer| peer.client.reset }
    end
  end

  # Stacks with more than 64 KB, without pages that Ruby has given back. The app's have 40 KB; they
  # have 92 if they keep the request's.
  def used_stacks
    maps = File.read("/proc/self/smaps").scan(/^(\h+)-(\h+) rw-p .*?^Rss: +(\d+).*?^LazyFree: +(\d+)/m)
    maps.count { |from, to, rss_kb, free_kb| (to.hex - from.hex).between?(500_000, 1_000_000) && rss_kb.to_i - free_kb.to_i > 64 }
  end

  # Sends "wait" to half of the sockets; waiting, failing and fiber-locals stay with their socket.
  class Mixed
    def initialize(go) = @go = go

    def on_message(socket, message)
      before, Thread.current[:mixed] = Thread.current[:mixed], message
      @go.pop if message == "wait"
      raise "oh" if message == "fail"

      socket.write("#{message} #{before.inspect} #{Thread.current[:mixed]}")
    end
  end

  def test_sockets_of_one_turn_share_neither_waits_nor_errors_nor_fiber_locals
    go = Gyre::Queue.new
    serve(->(env) { Gyre::WebSocket.open(env, Mixed.new(go)) }) do |served|
      peers = Array.new(12) { open_websocket(served) }
      words = %w[wait hello hello fail]
      served.on_loop { peers.each_with_index { |peer, index| peer.text(words[index % 4]) } }
      peers.each_with_index do |peer, index|
        assert_equal "hello nil hello", peer.message if words[index % 4] == "hello"
        assert_equal 1011, peer.closed.first if words[index % 4] == "fail"
      end
      served.on_loop { 3.times { go.push(nil) } }
      3.times { |index| assert_equal "wait nil wait", peers[4 * index].message }
      expect_errors(served, /oh/, /oh/, /oh/)
    end
  end

  # Notes state as Active Support keeps it, in a variable of the Fiber.
  class Stateful
    def on_open(_socket) = Fiber.current.instance_variable_set(:@user, "opened")

    def on_message(socket, message)
      before = Fiber.current.instance_variable_get(:@user)
      Fiber.current.instance_variable_set(:@user, message)
      socket.write(before.inspect)
    end
  end

  def test_each_event_begins_without_the_state_of_an_earlier_one
    serve(->(env) { Gyre::WebSocket.open(env, Stateful.new) }) do |served|
      peers = Array.new(10) { open_websocket(served) }
      served.on_loop { peers.each { |peer| 2.times { peer.text("ann") } } }
      assert_equal ["nil"], peers.flat_map { |peer| [peer.message, peer.message] }.uniq
    end
  end

  def test_a_handler_begins_without_the_state_of_a_block_of_the_same_turn
    go = Gyre::Queue.new
    handler = Events.new { |*| nil }
    handler.define_singleton_method(:on_open) { |socket| socket.write([Thread.current[:user], Fiber.current.instance_variable_get(:@user)].inspect) }
    app = lambda do |env|
      go.pop
      next Gyre::WebSocket.open(env, handler) if env["PATH_INFO"] == "/handler"

      Gyre::WebSocket.open(env) { |_| Fiber.current.instance_variable_set(:@user, Thread.current[:user] = "ann") }
    end
    serve(app) do |served|
      opening = Array.new(12) { |index| Thread.new { open_websocket(served, index.even? ? "/block" : "/handler") } }
      eventually { served.scheduler.stats[:tasks] == 13 }
      served.on_loop { 12.times { go.push(nil) } }
      peers = opening.map(&:value)
      assert_equal ["[nil, nil]"], peers.each_slice(2).map { |_, peer| peer.message }.uniq
    end
  end

  def test_a_handlers_events_run_in_the_executor_and_a_block_does_not
    wrapped = Thread::Queue.new
    Gyre::Job.executor = Module.new { define_singleton_method(:wrap) { |&event| wrapped.push(event.call) } }
    app = lambda do |env|
      next Gyre::WebSocket.open(env, Events.new { |_, text| text }) unless env["PATH_INFO"] == "/block"

      Gyre::WebSocket.open(env) { |socket| socket.write(socket.read) }
    end
    serve(app) do |served|
      assert_equal "hi", open_websocket(served, "/block").text("hi").message
      assert_empty wrapped
      open_websocket(served, "/handler").text("hello")
      wrapped.pop # on_open
      assert_equal "hello", wrapped.pop
    end
  ensure
    Gyre::Job.executor = nil
  end

  def test_a_handler_learns_of_a_client_that_vanishes
    events = Events.new
    serve(->(env) { Gyre::WebSocket.open(env, events) }) do |served|
      peer = open_websocket(served)
      assert_equal :open, events.pop.first
      peer.client.reset
      assert_equal [:close, 1006, ""], events.pop
      eventually { served.stats.values_at(:connections, :upgraded) == [0, 0] }
    end
  end

  def test_a_writer_waits_for_a_slow_client_and_goes_on
    written = Thread::Queue.new
    app = socket_app(output_bytes_limit: 10_000) do |socket|
      200.times { |index| socket.write("x" * 10_000) and written << index }
    end
    serve(app, buffers: 20_000) do |served|
      peer = open_websocket(served)
      eventually { written.size.positive? && served.on_loop { sleep(0.01) || served.scheduler.stats[:tasks] == 2 } }
      assert_operator written.size, :<, 150
      200.times { assert_equal 10_000, peer.message.bytesize }
      assert_equal [1000, ""], peer.closed
    end
  end

  def test_a_handler_learns_when_a_slow_client_has_taken_everything
    events = Events.new { |socket, _| socket.write("x" * 2_000_000) }
    serve(->(env) { Gyre::WebSocket.open(env, events, output_bytes_limit: "8M") }, buffers: 20_000) do |served|
      peer = open_websocket(served)
      peer.text("go")
      assert_equal 2_000_000, peer.message.bytesize
      assert_equal [[:open, nil], [:message, "go"], [:drained]], Array.new(3) { events.pop }
    end
  end

  def test_a_client_that_takes_nothing_is_cut_off
    codes = Thread::Queue.new
    app = socket_app do |socket|
      loop { socket.write("x" * 100_000) }
    rescue Gyre::WebSocket::ClosedError
      codes << socket.code
    end
    serve(app, buffers: 20_000, limits: { write_timeout_s: 0.1 }) do |served|
      open_websocket(served)
      assert_equal 1006, codes.pop
      eventually { served.stats.values_at(:connections, :upgraded) == [http2? ? 1 : 0, 0] }
    end
  end

  def test_a_client_may_reset_as_the_server_closes
    codes = Thread::Queue.new
    app = socket_app do |socket|
      loop { socket.write("x" * 100_000) }
    rescue Gyre::WebSocket::ClosedError
      codes << socket.code
    end
    serve(app, buffers: 20_000) do |served|
      peers = Array.new(10) { open_websocket(served) }
      eventually { served.stats[:upgraded] == 10 }
      served.on_loop do
        peers.each { |peer| peer.client.reset }
        served.server.close
      end
      assert_equal [1006] * 10, Array.new(10) { codes.pop }
    end
  end

  def test_pings_are_timed_and_have_a_limit
    results = Thread::Queue.new
    app = socket_app do |socket|
      results << socket.ping(timeout: 30)
      results << assert_raises(Gyre::TimeoutError) { socket.ping(timeout: 0.05) }
      socket.read
      results << assert_raises(Gyre::WebSocket::ClosedError) { socket.ping(timeout: 30) }
    end
    serve(app) do |served|
      peer = open_websocket(served)
      2.times do |index|
        ping = peer.frame
        assert_equal 9, ping.opcode
        peer.send(10, ping.payload) if index.zero?
      end
      assert_kind_of Float, results.pop
      assert_kind_of Gyre::TimeoutError, results.pop
      peer.close(1000)
      assert_kind_of Gyre::WebSocket::ClosedError, results.pop
    end
  end

  def test_a_silent_client_is_pinged_and_then_cut_off
    events = Events.new
    within_limits(0.4, 2, 5, what: "a ping without an answer behind three with one") do |limit_s|
      serve(->(env) { Gyre::WebSocket.open(env, events, idle_timeout_s: limit_s) }) do |served|
        peer = open_websocket(served)
        pings = Array.new(3) { peer.frame.tap { |ping| peer.send(10, ping.payload) } } << peer.frame
        pings.map(&:opcode) == [9] * 4 && peer.ended?
      rescue Minitest::Assertion
        false
      ensure
        assert_equal [[:open, nil], [:close, 1006, ""]], Array.new(2) { events.pop }
      end
    end
  end

  def test_a_client_that_does_not_answer_a_close_is_cut_off
    serve(socket_app(close_timeout_s: 0.1) { |socket| socket.close(1001, "bye") }) do |served|
      peer = open_websocket(served)
      assert_equal [1001, "bye"], peer.closed
      peer.text("still talking")
      assert peer.ended?
    end
  end

  def test_closes_that_cross_lose_nothing
    closed = Thread::Queue.new
    app = socket_app(output_bytes_limit: "8M") do |socket|
      socket.write("x" * 500_000)
      closed << socket
      socket.close(3000)
    end
    serve(app, buffers: 20_000, limits: { linger_timeout_s: 0.05 }) do |served|
      peer = open_websocket(served)
      socket = closed.pop
      peer.close(1001)
      eventually { socket.code }
      assert_equal 500_000, peer.message.bytesize
      assert_equal [3000, ""], peer.closed
    end
  end

  def test_a_close_wakes_the_reader_and_ends_writes
    results, go = Thread::Queue.new, Thread::Queue.new
    app = socket_app do |socket|
      Fiber.schedule { go.pop and socket.close(3001) }
      results << socket.read << socket.closed? << assert_raises(Gyre::WebSocket::ClosedError) { socket.write("x") }.message
      socket.close
    end
    serve(app) do |served|
      peer = open_websocket(served)
      go << true
      assert_equal [3001, ""], peer.closed
      assert_equal [nil, true, "the WebSocket was closed here"], Array.new(3) { results.pop }
      peer.close(3001)
      assert peer.ended?
    end
  end

  def test_codes_and_reasons_are_checked
    errors = Thread::Queue.new
    app = socket_app do |socket|
      [[1005], [1006], [2000], ["1000"], [1000, "x" * 124]].each { |arguments| errors << assert_raises(ArgumentError) { socket.close(*arguments) } }
      socket.close(1000, "ä" * 61)
    end
    serve(app) do |served|
      assert_equal [1000, "ä" * 61], open_websocket(served).closed
      assert_equal 5, errors.size
    end
  end

  def test_an_app_that_raises_is_logged_and_its_client_told
    handler = Struct.new(:nothing) { def on_message(_socket, message) = raise(message) }.new
    apps = { "/fiber" => ->(env) { Gyre::WebSocket.open(env) { |socket| raise socket.read } },
             "/handler" => ->(env) { Gyre::WebSocket.open(env, handler) } }
    serve(->(env) { apps.fetch(env["PATH_INFO"]).call(env) }) do |served|
      apps.each_key do |path|
        peer = open_websocket(served, path)
        peer.text("oops of #{path}")
        assert_equal [1011, ""], peer.closed
        expect_errors(served, /a WebSocket: unhandled in the app: .*oops of #{path}/)
      end
    end
  end

  def test_an_app_whose_client_has_left_is_not_logged
    ended = Thread::Queue.new
    app = socket_app do |socket|
      loop { socket.write("tick") && sleep(0.01) }
    ensure
      ended << socket.code
    end
    serve(app) do |served|
      peer = open_websocket(served)
      peer.message
      peer.close(1001)
      assert_equal 1001, ended.pop
    end
  end

  def test_too_long_messages_are_refused
    serve(echo_app(message_bytes_limit: 1000)) do |served|
      peer = open_websocket(served)
      assert_equal 1000, peer.text("x" * 1000).message.bytesize
      peer.text("x" * 1001)
      assert_equal [1009, "the message is too long"], peer.closed
      assert peer.ended?
    end
  end

  def test_partial_messages_share_the_servers_memory
    message = GyreTest::WebSocketServing.frame(2, "x" * 600_000)
    serve(echo_app, limits: { input_bytes_limit: 4_000_000 }) do |served|
      peers = Array.new(10) { open_websocket(served) }
      peers.each { |peer| peer.write(message.byteslice(0, 500_000)) }
      eventually { served.stats[:upgraded] < 9 }
      assert_operator served.stats[:upgraded], :>, 0
      peers.each { |peer| peer.client.reset }
      eventually { served.stats[:upgraded].zero? }
      assert_equal 600_000, open_websocket(served).write(message).message.bytesize
    end
  end

  def test_other_threads_may_use_it
    results = Thread::Queue.new
    app = socket_app do |socket|
      thread = Thread.new do
        socket.write("from a thread")
        results << socket.read
        results << socket.ping(timeout: 30)
        socket.close(4001, "by a thread")
      end
      thread.join
    end
    serve(app) do |served|
      peer = open_websocket(served)
      assert_equal "from a thread", peer.message
      peer.text("to a thread")
      peer.send(10, peer.frame.payload)
      assert_equal [4001, "by a thread"], peer.closed
      assert_equal "to a thread", results.pop
    end
  end

  def test_other_threads_see_its_end_while_the_loop_is_busy
    sockets = Thread::Queue.new
    serve(socket_app { |socket| sockets << socket && socket.read }) do |served|
      peer = open_websocket(served)
      socket = sockets.pop
      peer.client.reset
      eventually { socket.code }
      thread = nil
      hold(served) do
        thread = Thread.new { [socket.read, *Array.new(4) { assert_raises(Gyre::WebSocket::ClosedError) { socket.write("x") }.class }] }
        sleep(0.05)
      end
      assert_equal [nil, *[Gyre::WebSocket::ClosedError] * 4], thread.value
    end
  end

  def test_the_server_stops_with_going_away
    events = Events.new
    ended = Thread::Queue.new
    apps = { "/reads" => ->(env) { Gyre::WebSocket.open(env) { |socket| ended << [socket.read, socket.code] } },
             "/sleeps" => ->(env) { Gyre::WebSocket.open(env) { |_| begin sleep(1000) ensure ended << [:ended, nil] end } },
             "/handler" => ->(env) { Gyre::WebSocket.open(env, events) } }
    serve(->(env) { apps.fetch(env["PATH_INFO"]).call(env) }) do |served|
      peers = apps.keys.map { |path| open_websocket(served, path) }
      eventually { served.stats[:upgraded] == 3 && events.all.size == 1 }
      stopping = Thread.new { served.on_loop { served.server.shutdown(30) } }
      peers.each do |peer|
        assert_equal [1001, ""], peer.closed
        peer.close(1001)
        assert peer.ended?
      end
      assert_equal true, stopping.value
      assert_equal [[:ended, nil], [nil, 1001]], Array.new(2) { ended.pop }.sort_by { |_, code| code.to_i }
      assert_equal [[:open, nil], [:close, 1001, ""]], Array.new(2) { events.pop }
    end
  end

  def test_a_server_that_stops_at_once_leaves_none
    ended = Thread::Queue.new
    app = socket_app do |socket|
      socket.read
      sleep(1000)
    ensure
      ended << true
    end
    serve(app) do |served|
      peer = open_websocket(served)
      peer.text("go")
      eventually { served.scheduler.stats[:tasks] == 2 }
      served.on_loop { served.server.shutdown(0) }
      assert ended.pop
      peer.client.rest
    end
  end

  # Without fibers of its own: an idle one's stack may still have an address.
  def test_a_closed_socket_is_collected
    handler = Module.new { def self.on_message(socket, message) = socket.write(message) }
    serve(->(env) { Gyre::WebSocket.open(env, handler) }) do |served|
      peers = Array.new(20) { open_websocket(served) }
      peers.each { |peer| assert_equal "x", peer.text("x").message }
      peers.each { |peer| peer.close(1000).closed }
      eventually { served.stats[:upgraded].zero? }
      eventually do
        served.on_loop { Array.new(20) { +"" } && GC.start }
        ObjectSpace.each_object(Gyre::WebSocket).count < 10
      end
    end
  end

  def test_counts
    serve(echo_app) do |served|
      peer = open_websocket(served)
      3.times { peer.text("x").message }
      assert_equal [1, 3, 3], served.on_loop { served.server.stats.values_at(:upgrades, :messages_received, :messages_sent) }
      assert_equal [1, 0], served.stats.values_at(:upgraded, :running)
    end
  end

  # With threads that send, and bytes of HTTP/1.
  module HTTP1
    # Writes what its path says, or listens.
    CROWD = lambda do |pendings, env|
      Gyre::WebSocket.open(env, backlog_bytes_limit: "8M", backlog_timeout_s: env["PATH_INFO"] == "/" ? 2 : 30) do |socket|
        count, bytes = env["PATH_INFO"].scan(/\d+/).map(&:to_i)
        Gyre::Broadcast.subscribe(:crowd, socket) unless count
        socket.write("in")
        count.to_i.times do
          socket.write("x" * bytes)
          pendings << socket.pending
        end
        socket.read
      end
    end

    def test_sockets_share_the_servers_memory_for_output
      pendings = Thread::Queue.new
      serve(CROWD.curry[pendings], buffers: 20_000, limits: { output_bytes_limit: "1M" }) do |served|
        quick, *slow = ["/quick", *["/"] * 4].map { |path| open_websocket(served, path).tap(&:message) }
        greedy = [600_000, 610_000].map { |bytes| open_websocket(served, "/1x#{bytes}").tap(&:message) }
        eventually { served.used[:output] > 1 << 20 }
        patient = open_websocket(served, "/20x30000")
        assert_equal ["in", *["x" * 30_000] * 20], Array.new(21) { patient.message }
        assert_equal [0], Array.new(20) { pendings.pop }.uniq
        greedy.each { |peer| assert_operator peer.message.bytesize, :>=, 600_000 }
        20.times do |number|
          served.on_loop { Gyre::Broadcast.publish(:crowd, "#{number}#{"y" * 100_000}") }
          assert_operator quick.message.bytesize, :>, 100_000
        end
        assert_equal 1, Gyre::Broadcast.count(:crowd)
        cut, held = served.on_loop { served.server.stats.values_at(:slow_sockets, :publishers_held) }
        assert_equal [4, true], [cut, held.positive?]
        [*slow, *greedy, quick, patient].each { |peer| peer.client.reset }
        eventually { served.stats[:upgraded].zero? && served.used[:output].zero? }
      end
    end

    def test_a_client_that_is_held_up_is_not_silent
      serve(echo_app(idle_timeout_s: 1), buffers: 20_000) do |served|
        peer = open_websocket(served)
        count = 20_000
        sender = Thread.new { peer.write(GyreTest::WebSocketServing.frame(9, "p" * 100) * count) }
        eventually { sender.status == "sleep" }
        sleep(1.5) # longer than it may be silent
        pongs = 0
        pongs += 1 if peer.frame.payload == "p" * 100 while pongs < count # others are pings
        sender.join
      end
    end

    def test_bytes_of_open_sockets_are_counted
      serve(echo_app) do |served|
        peer = open_websocket(served)
        count = -> { served.on_loop { served.server.measurements.values_at("received_bytes", "sent_bytes") } }
        before = count.call
        peer.text("x" * 100).message
        assert_equal [106, 102], count.call.zip(before).map { |now, then_| now - then_ }
      end
    end

    def test_a_long_message_goes_both_ways
      serve(echo_app(message_bytes_limit: "8M"), buffers: 20_000) do |served|
        peer = open_websocket(served)
        long = "0123456789abcdef" * 200_000
        sender = Thread.new { peer.text(long) }
        assert_equal long, peer.message
        sender.join
      end
    end

    def test_a_client_is_held_up_while_nothing_reads
      go = Thread::Queue.new
      app = socket_app do |socket|
        go.pop
        socket.each { |message| socket.write(message.bytesize.to_s) }
      end
      serve(app, buffers: 20_000) do |served|
        peer = open_websocket(served)
        sent = 0
        sender = Thread.new { 100.times { peer.text("y" * 20_000) and sent += 1 } }
        eventually { sender.status == "sleep" }
        sleep(0.05)
        assert_operator sent, :<, 50
        go << true
        100.times { assert_equal "20000", peer.message }
        sender.join
      end
    end

    def test_a_flood_of_pings_is_answered_as_fast_as_the_client_reads
      serve(echo_app, buffers: 20_000) do |served|
        peer = open_websocket(served)
        count = 20_000
        sender = Thread.new { peer.write(GyreTest::WebSocketServing.frame(9, "p" * 100) * count) }
        eventually { sender.status == "sleep" }
        count.times { assert_equal [10, "p" * 100], peer.frame.to_a.first(2) }
        sender.join
        peer.text("after")
        assert_equal "after", peer.message
      end
    end

    def test_others_are_served_during_a_flood_of_pings
      serve(echo_app) do |served|
        flood = open_websocket(served)
        stop = false
        reader = Thread.new { loop { flood.client.socket.readpartial(65_536) } rescue nil }
        sender = Thread.new { flood.write(GyreTest::WebSocketServing.frame(9) * 1000) until stop }
        peer = open_websocket(served)
        4.times { |index| assert_equal index.to_s, peer.text(index.to_s).message }
        stop = true
        sender.join
        reader.kill.join
      end
    end

    def test_frames_may_come_with_the_handshake
      serve(echo_app) do |served|
        client = connect(served)
        client.request("GET / HTTP/1.1", GyreTest::WebSocketServing.frame(1, "early"), **GyreTest::WebSocketServing::FIELDS)
        peer = GyreTest::WebSocketServing::Peer.new(client, client.response)
        assert_equal "early", peer.message
      end
    end
  end
end

GyreTest::HTTPContract.run(WebSocketSockets, over: %i[http1 tls http2 http2_tls])
