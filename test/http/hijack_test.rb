# frozen_string_literal: true

# Hijacked connections that stay the server's: the app has one end of a socket pair. Over plain HTTP
# the client's early bytes make it so. Streams of HTTP/2: test/websocket/hijack_test.rb.

require "test_helper"
require "http/contract"

module HTTPHijack
  include GyreTest::HTTPServing

  # Runs the block with the hijacked socket in a thread, as most gems do.
  def hijacking(&block)
    lambda do |env|
      io = env["rack.hijack"].call
      Thread.new do
        block.call(io)
      ensure
        io.close
      end
      [-1, {}, []]
    end
  end

  # Serves the app with a client whose first bytes after its head are "early".
  def with_client(app, **options)
    serve(app, **options) { |served| yield connect(served).request("GET / HTTP/1.1", "early"), served }
  end

  # nio4r and other C libraries read the descriptor, and only when the kernel reports bytes.
  def test_its_descriptor_reports_every_byte_early_ones_and_the_rest_of_a_record
    app = hijacking do |io|
      got = +""
      got << read_raw(io) while got.bytesize < 9_005 && io.wait_readable(PATIENCE_S)
      io.write(got.bytesize.to_s)
    end
    with_client(app) { |client, _served| assert_equal "9005", client.write("x" * 9_000).rest }
  end

  def test_the_client_gets_what_write_nonblock_has_accepted
    app = hijacking do |io|
      data = "x" * 4_000_000
      sent = 0
      while sent < data.bytesize
        taken = io.write_nonblock(data.byteslice(sent, data.bytesize), exception: false)
        taken == :wait_writable ? io.wait_writable(PATIENCE_S) : sent += taken
      end
    end
    with_client(app, buffers: 200_000) { |client, _served| assert_equal 4_000_000, client.take(4_000_000).bytesize }
  end

  def test_the_client_gets_the_tail_of_an_app_that_closes
    app = hijacking { |io| io.write("x" * 1_000_000) }
    with_client(app, buffers: 200_000) do |client, served|
      assert_equal 1_000_000, client.rest.bytesize
      client.close
      eventually { served.stats.values_at(:connections, :running) == [0, 0] }
    end
  end

  def test_it_outlives_the_fiber_of_its_request
    held = Thread::Queue.new
    app = ->(env) { (held << env["rack.hijack"].call) && raise(Gyre::Stop, "the fiber ends") }
    with_client(app) do |client, served|
      io = held.pop
      eventually { served.stats[:running].zero? }
      io.write("late")
      assert_equal "late", client.take(4)
      io.close
    end
  end

  def test_an_app_that_ends_its_writing_reads_on
    read = Thread::Queue.new
    app = hijacking do |io|
      io.write("mine")
      io.close_write
      read << io.readpartial(5) << io.read(4)
    end
    with_client(app) do |client, served|
      assert_equal "mine", client.rest
      client.write("late")
      assert_equal %w[early late], Array.new(2) { read.pop }
      client.close
      eventually { served.stats[:connections].zero? }
    end
  end

  def test_the_app_reads_the_clients_end
    read = Thread::Queue.new
    app = hijacking { |io| read << io.read }
    with_client(app) do |client, served|
      client.close
      assert_equal "early", read.pop
      eventually { served.stats[:connections].zero? }
    end
  end

  def test_a_client_that_takes_nothing_is_cut_off
    failed = Thread::Queue.new
    app = hijacking do |io|
      loop { io.write("x" * 100_000) }
    rescue SystemCallError => error
      failed << error
    end
    with_client(app, buffers: 200_000, limits: { write_timeout_s: 0.2 }) do |_client, served|
      assert_kind_of SystemCallError, failed.pop
      eventually { served.stats[:connections].zero? }
    end
  end

  def test_it_counts_as_a_connection
    held = Thread::Queue.new
    app = ->(env) { [-1, {}, (held << env["rack.hijack"].call) && []] }
    serve(app) do |served|
      clients = Array.new(2) { |number| connect(served).request("GET / HTTP/1.1", "early" * number) }
      sockets = Array.new(2) { held.pop }
      eventually { served.stats.values_at(:connections, :away, :running) == (tls? ? [2, 0, 0] : [1, 1, 0]) }
      sockets.each(&:close)
      clients.each { |client| assert_predicate client, :ended? }
      clients.each(&:close)
      eventually { served.stats.values_at(:connections, :away) == [0, 0] }
    end
  end

  def test_it_is_in_the_environment_and_the_same_at_each_call
    kept = Thread::Queue.new
    app = lambda do |env|
      io = env["rack.hijack"].call
      io.write([io.equal?(env["rack.hijack_io"]), io.equal?(env["rack.hijack"].call)].inspect)
      kept << [env, io]
      [-1, {}, []]
    end
    ["", "early"].each do |early|
      serve(app) do |served|
        client = connect(served).request("GET / HTTP/1.1", early)
        assert_equal "[true, true]", client.take(12)
        env, io = kept.pop
        eventually { served.stats[:running].zero? }
        assert_same io, env["rack.hijack"].call, "after the request too"
        io.close
        client.close
      end
    end
  end

  # Reads as C libraries do, past Ruby's buffer.
  def read_raw(io)
    IO.for_fd(io.fileno, autoclose: false).sysread(4096)
  end
end

GyreTest::HTTPContract.run(HTTPHijack, over: %i[http1 tls])
