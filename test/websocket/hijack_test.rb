# frozen_string_literal: true

# Streams of HTTP/2 (RFC 8441) that an app hijacks, as gems for WebSockets do over HTTP/1.1.
# websocket-driver and Action Cable: test/frameworks/cable_test.rb.

require "test_helper"
require "http/contract"
require "websocket/serving"

module WebSocketHijacks
  include GyreTest::WebSocketServing

  H2 = GyreTest::H2
  HEAD = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nX-Made-By: a Gem\r\n\r\n"

  # Runs the block with the hijacked socket, in a thread as most gems, or in the request.
  def hijacking(threaded: true, head: HEAD, &block)
    lambda do |env|
      io = env["rack.hijack"].call
      work = lambda do
        io.write(head)
        block&.call(io)
      rescue Errno::EPIPE
        nil # the stream was reset
      ensure
        io.close
      end
      threaded ? Thread.new(&work) : work.call
      [-1, {}, []]
    end
  end

  def echo(io)
    while (bytes = io.readpartial(65_536)) do io.write(bytes) end
  rescue EOFError
    io.write("the end")
  end

  def open_hijacked(h2, path = "/")
    h2.open_fields(connect_fields(path), end_stream: false).head
  end

  def test_its_head_is_the_response_and_bytes_flow_both_ways
    [true, false].each do |threaded|
      serve(hijacking(threaded: threaded) { |io| echo(io) }, log_accesses: true) do |served|
        h2 = connect(served).h2
        stream = open_hijacked(h2)
        assert_equal [200, [["x-made-by", "a Gem"]]], [stream.status, stream.fields]
        %w[one two].each { |word| assert_equal word, stream.write(word).take(3) }
        long = Random.new(1).bytes(3_000_000)
        sent = 0
        while sent < long.bytesize
          stream.write(long.byteslice(sent, 30_000))
          assert_equal long.byteslice(sent, 30_000), stream.take(30_000)
          sent += 30_000
        end
        stream.finish
        assert_equal "the end", stream.response.body
        eventually { served.accesses.size == 1 }
        assert_equal 101, served.accesses.first[1]
        eventually { served.stats.values_at(:connections, :running) == [1, 0] }
      end
    end
  end

  def test_bytes_that_came_before_are_read
    gate = Thread::Queue.new
    app = hijacking { |io| echo(io) }
    serve(->(env) { gate.pop && app.call(env) }) do |served|
      h2 = connect(served).h2
      stream = h2.open_fields(connect_fields, end_stream: false).write("early")
      gate << true
      assert_equal "early", stream.take(5)
    end
  end

  def test_another_thread_may_hijack_it
    app = lambda do |env|
      Thread.new do
        io = env["rack.hijack"].call
        io.write("#{HEAD}from a thread")
        io.close
      end.join
      [-1, {}, []]
    end
    serve(app) { |served| assert_equal "from a thread", open_hijacked(connect(served).h2).response.body }
  end

  def test_a_head_in_pieces
    app = lambda do |env|
      io = env["rack.hijack"].call
      "#{HEAD}first".each_char { |byte| io.write(byte) && sleep(0) }
      io.close
      [-1, {}, []]
    end
    serve(app) do |served|
      assert_equal "first", open_hijacked(connect(served).h2).response.body
    end
  end

  def test_a_refusal_of_the_gem_is_the_response
    app = hijacking(head: "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n\r\nno")
    serve(app) do |served|
      stream = open_hijacked(connect(served).h2)
      assert_equal [400, "text/plain", "no"], [stream.status, stream["content-type"], stream.response.body]
    end
  end

  def test_an_invalid_head_resets_the_stream_alone
    heads = ["", "HTTP/1.1 101", "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 abc\r\n\r\n", "\r\n\r\n", "\n\r\n", "HTTP/1.1 101 x\r\nno colon\r\n\r\n",
             "HTTP/1.1 101 x\r\na b: c\r\n\r\n", "x" * 70_000]
    serve(->(env) { hijacking(head: heads.fetch(Integer(env["QUERY_STRING"]))).call(env) }) do |served|
      h2 = connect(served).h2
      heads.each_index { |index| refute_nil h2.open_fields(connect_fields("/?#{index}"), end_stream: false).failure, heads[index][0, 40] }
      eventually { served.stats.values_at(:connections, :running) == [1, 0] }
    end
  end

  def test_a_slow_client_holds_the_app_up
    written = 0
    app = hijacking do |io|
      100.times { io.write("x" * 20_000) and written += 20_000 }
    end
    serve(app) do |served|
      h2 = connect(served, settings: { initial_window_size: 0 }).h2
      stream = open_hijacked(h2)
      before = -1
      eventually { before == written && written.positive? || !(before = written) || !sleep(0.05) }
      assert_operator written, :<, 1_000_000
      h2.write(H2.window_update(stream.id, 100_000))
      assert_equal 2_000_000, stream.response.body.bytesize
    end
  end

  def test_a_slow_app_holds_its_client_up_alone
    gate = Thread::Queue.new
    app = hijacking { |io| gate.pop && echo(io) }
    serve(->(env) { env["rack.protocol"] ? app.call(env) : [200, {}, ["hello"]] },
      limits: { stream_window_bytes_limit: 100_000 }) do |served|
      h2 = connect(served).h2.greet
      stream = open_hijacked(h2)
      sent = 0
      20.times do
        while stream.window >= 10_000
          stream.write("y" * 10_000)
          sent += 10_000
        end
        h2.synchronize
      end
      assert_operator sent, :<, 1_000_000
      assert_operator served.used[:input], :>=, 65_536
      assert_equal "hello", h2.get.body
      gate << true
      assert_equal sent, stream.take(sent).bytesize
      eventually { served.used[:input].zero? }
    end
  end

  def test_a_client_that_takes_nothing_is_cut_off
    ended = Thread::Queue.new
    app = hijacking do |io|
      loop { io.write("x" * 100_000) }
    rescue Errno::EPIPE, Errno::ECONNRESET => error
      ended << error
    end
    serve(app, limits: { write_timeout_s: 0.2 }) do |served|
      stream = open_hijacked(connect(served, settings: { initial_window_size: 0 }).h2)
      assert_equal :cancel, stream.failure
      assert_kind_of SystemCallError, ended.pop
      eventually { served.used[:output].zero? }
    end
  end

  def test_the_app_reads_the_end_of_a_reset_stream_and_of_its_connection
    ended = Thread::Queue.new
    serve(hijacking { |io| ended << io.read }) do |served|
      h2 = connect(served).h2
      streams = Array.new(3) { open_hijacked(h2) }
      streams.first.write("abc")
      h2.synchronize
      streams.first.reset
      assert_equal "abc", ended.pop
      h2.reset
      assert_equal ["", ""], Array.new(2) { ended.pop }
      eventually { served.stats.values_at(:connections, :running) == [0, 0] }
    end
  end

  def test_only_a_websocket_can_be_hijacked
    results = Thread::Queue.new
    app = lambda do |env|
      results << env.key?("rack.hijack")
      next [200, {}, []] unless env["rack.protocol"]

      io = env["rack.hijack"].call
      results << env["rack.hijack"].call.equal?(io) << env["rack.input"].read.to_s
      io.write(HEAD)
      io.close
      [-1, {}, []]
    end
    serve(app) do |served|
      h2 = connect(served).h2
      assert_equal 200, h2.get.status
      assert_equal "", open_hijacked(h2).response.body
      assert_equal [false, true, true, ""], Array.new(4) { results.pop }
    end
  end

  def test_an_app_that_raises_after_it_is_logged
    app = lambda do |env|
      env["rack.hijack"].call.close
      raise "after the hijack"
    end
    serve(app) do |served|
      refute_nil open_hijacked(connect(served).h2).error
      expect_errors(served, /after the hijack/)
    end
  end

  def test_a_stop_ends_the_apps_input_and_lets_it_write
    serve(hijacking { |io| echo(io) }) do |served|
      h2 = connect(served).h2
      stream = open_hijacked(h2)
      stopping = Thread.new { served.on_loop { served.server.shutdown(30) } }
      assert_equal "the end", stream.response.body
      h2.close
      assert_equal true, stopping.value
    end
  end

  def test_a_stop_at_once_ends_an_app_that_does_not
    ended = Thread::Queue.new
    app = hijacking do |io|
      loop { io.write("tick") && sleep(0.01) }
    rescue Errno::EPIPE
      ended << :ended
    end
    serve(app) do |served|
      h2 = connect(served).h2
      open_hijacked(h2)
      served.on_loop { served.server.shutdown(0) }
      assert_equal :ended, ended.pop
    end
  end

  def test_a_forked_child_leaves_it_to_the_parent
    app = hijacking(threaded: false) do |io|
      io.write("#{Process.wait2(Process.fork { exit!(0) }).last.exitstatus}\n")
      echo(io)
    end
    serve(app) do |served|
      stream = open_hijacked(connect(served).h2)
      assert_equal "0\n", stream.take(2)
      assert_equal "still", stream.write("still").take(5)
    end
  end
end

GyreTest::HTTPContract.run(WebSocketHijacks, over: %i[http2 http2_tls])
