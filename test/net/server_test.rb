# frozen_string_literal: true

# Gyre.connect and Gyre.listen together: plain and over TLS, over TCP and Unix sockets, in tasks and
# in plain threads.

require "test_helper"
require "support/transports"
require "tempfile"

class NetServerTest < Minitest::Test
  include GyreTest::Transports

  ADDRESSES = ["tcp://127.0.0.1:0", "unix:"].freeze

  def test_lines_go_back_and_forth
    [nil, GyreTest::Transports.contexts].product(ADDRESSES) do |contexts, address|
      serving(address, tls: contexts&.last) do |server|
        answer = Gyre.connect(server.endpoints.first, tls: contexts && trusting(contexts, address)) do |peer|
          assert_equal !contexts.nil?, peer.tls?
          peer << "hello\n" << "world\n"
          [peer.gets, peer.gets, peer.inspect]
        end
        assert_equal %W[HELLO\n WORLD\n], answer.first(2)
        assert_includes answer.last, server.endpoints.first.to_s
      end
    end
  end

  def test_many_connections_at_once
    serving do |server|
      Gyre.run do |task|
        replies = Array.new(50) { |index| task.async { Gyre.connect(server.endpoints.first) { |peer| (peer << "#{index}\n").gets } } }
        assert_equal Array.new(50) { |index| "#{index}\n" }, replies.map(&:wait)
      end
    end
  end

  def test_an_error_of_a_connection_ends_that_one_only
    reports = capture_reports do
      serving("tcp://127.0.0.1:0", handler: ->(peer) { peer.gets == "raise\n" ? raise("mine") : peer.write("fine\n") }) do |server|
        Gyre.connect(server.endpoints.first) { |peer| assert_nil((peer << "raise\n").gets) }
        Gyre.connect(server.endpoints.first) { |peer| assert_equal "fine\n", (peer << "go\n").gets }
      end
    end
    assert_includes reports, "mine"
  end

  def test_what_a_peer_does_is_one_line
    reports = capture_reports do
      serving("tcp://127.0.0.1:0", handler: ->(peer) { peer.write("go\n") && peer.read }) do |server|
        3.times do
          peer = Gyre.connect(server.endpoints.first).tap(&:gets)
          peer.to_io.setsockopt(Socket::Option.linger(true, 0))
          peer.abandon
        end
        eventually { server.stats[:cut] == 3 }
      end
    end
    assert_match(/\Agyre: Connection reset by peer - receive from 127\.0\.0\.1:\d+\n\z/, reports)
  end

  def test_connections_beyond_the_limit_are_closed
    serving("tcp://127.0.0.1:0", connections_limit: 1) do |server|
      Gyre.connect(server.endpoints.first) do |peer|
        assert_equal "A\n", (peer << "a\n").gets
        assert_nil Gyre.connect(server.endpoints.first, &:read_partial)
        assert_equal({ connections: 1, accepted: 2, refused: 1, handshakes_failed: 0, cut: 0 }, server.stats)
      end
      eventually { server.stats[:connections].zero? }
      Gyre.connect(server.endpoints.first) { |peer| assert_equal "B\n", (peer << "b\n").gets }
    end
  end

  def test_errors_of_accept_end_no_listener
    errors = [Errno::EPROTO, Errno::ENETDOWN, Errno::ECONNABORTED, Errno::EMFILE]
    left = errors.dup
    reports = capture_reports do
      serving(before: lambda { |server|
        server.instance_variable_get(:@listeners).first.socket.define_singleton_method(:accept_nonblock) do |**options|
          (error = left.shift) ? raise(error) : super(**options)
        end
      }) do |server|
        Gyre.connect(server.endpoints.first) { |peer| assert_equal "A\n", (peer << "a\n").gets }
      end
    end
    assert_empty left
    assert_equal "gyre: cannot accept connections: Too many open files; trying again in a second\n", reports
  end

  def test_a_peer_that_fails_in_the_handshake_is_dropped_silently
    reports = capture_reports do
      serving("tcp://127.0.0.1:0", tls: GyreTest::Transports.contexts.last, handshake_timeout_s: 0.05) do |server|
        Gyre.connect(server.endpoints.first) { |peer| assert_raises(Errno::ECONNRESET, EOFError) { (peer << "no TLS\n").read_exactly(100) } }
        Gyre.connect(server.endpoints.first) { |silent| assert_nil silent.read_partial }
        assert_equal [2, 0], server.stats.values_at(:handshakes_failed, :cut)
        eventually(what: "a handshake in time") do
          Gyre.connect(server.endpoints.first, tls: GyreTest::Transports.contexts.first) { |peer| (peer << "a\n").gets == "A\n" }
        rescue IOError, SystemCallError, Gyre::Error
          false # on a busy machine
        end
      end
    end
    assert_empty reports
  end

  def test_a_context_of_the_wrong_side_is_refused_before_anything_starts
    client, server = GyreTest::Transports.contexts
    [true, { key: "PRIVATE" }, client].each do |tls|
      error = assert_raises(ArgumentError) { Gyre.listen("tcp://127.0.0.1:0", tls: tls) }
      refute_includes error.message, "PRIVATE"
      assert_includes error.message, "tls: here it must be a context of Gyre::TLS.server, got "
    end
    [{}, server].each do |tls|
      error = assert_raises(ArgumentError) { Gyre.connect("tcp://127.0.0.1:1", tls: tls) }
      assert_includes error.message, "tls: here it must be a context of Gyre::TLS.client, got "
    end
  end

  def test_a_handshake_that_takes_too_long_is_reported_with_its_limit
    TCPServer.open("127.0.0.1", 0) do |silent|
      error = assert_raises(Gyre::TimeoutError) do
        Gyre.connect("tcp://127.0.0.1:#{silent.local_address.ip_port}", tls: true, timeout_s: 0.05)
      end
      assert_match(/: not over after 0(\.\d+)? s\z/, error.message)
    end
  end

  def test_a_server_that_is_not_trusted_is_refused_by_name
    serving("tcp://127.0.0.1:0", tls: GyreTest::Transports.contexts.last) do |server|
      address = server.endpoints.first.to_s
      error = assert_raises(Gyre::TLS::Error) { Gyre.connect(address, tls: true) }
      assert_match(/\ATLS handshake with #{address}: certificate verify failed/, error.message)
    end
  end

  def test_a_connection_whose_block_raises_is_cut
    received = Thread::Queue.new
    handler = lambda do |peer|
      peer.read
    rescue Gyre::TLS::Truncated, Errno::ECONNRESET => error
      received << error.class
    end
    serving("tcp://127.0.0.1:0", tls: GyreTest::Transports.contexts.last, handler: handler) do |server|
      assert_raises(RuntimeError) do
        Gyre.connect(server.endpoints.first, tls: GyreTest::Transports.contexts.first) { |peer| peer << "half" and raise "mine" }
      end
      assert received.pop
    end
  end

  def test_a_connection_counts_until_it_is_closed
    over = Thread::Queue.new
    handler = lambda do |peer|
      peer.to_io.setsockopt(:SOCKET, :SNDBUF, 1)
      peer << ("x" * 60_000)
      over << true
    end
    serving("unix:", handler: handler, connections_limit: 1) do |server|
      Gyre.connect(server.endpoints.first) do |peer|
        over.pop # what is left is sent while the server closes
        assert_nil(Gyre.connect(server.endpoints.first, &:gets))
        assert_equal [1, 1], server.stats.values_at(:connections, :refused)
        assert_equal 60_000, peer.read.bytesize
      end
      eventually { server.stats[:connections].zero? }
    end
  end

  def test_one_client_context_serves_the_process
    certificate, key = GyreTest::Transports.identity("server")
    server = ["-rgyre/net", "-e", <<~RUBY, certificate, key]
      context = Gyre::TLS.server(cert: ARGV[0], key: ARGV[1])
      server = Gyre.listen("tcp://127.0.0.1:0", tls: context)
      Thread.new { server.each { |peer| peer.write("x") } }
      p(Array.new(3) { Gyre.connect("tcp://localhost:\#{server.port}", tls: true) { |peer| peer.read.then { peer.tls_resumed? } } })
      p Gyre::TLS.shared_client.equal?(Gyre::TLS.shared_client)
      exit!
    RUBY
    result = ruby(*server, env: { "SSL_CERT_FILE" => GyreTest::Transports.certificates.authority, "SSL_CERT_DIR" => "/nowhere" })
    assert_equal "[false, true, true]\ntrue\n", result.out, result.err
  end

  def test_the_systems_authorities_are_read_once_in_a_process
    certificate, key = GyreTest::Transports.identity("server")
    Tempfile.create("authorities") do |authorities|
      File.write(authorities.path, File.read(GyreTest::Transports.certificates.authority))
      places = { "SSL_CERT_FILE" => authorities.path, "SSL_CERT_DIR" => "/nowhere" }
      result = ruby("-rgyre/net", "-e", <<~RUBY, certificate, key, authorities.path, env: places)
        server = Gyre.listen("tcp://127.0.0.1:0", tls: Gyre::TLS.server(cert: ARGV[0], key: ARGV[1]))
        Thread.new { server.each { |peer| peer.write("x") } }
        contexts = 2.times.map { Gyre::TLS.client.tap { File.write(ARGV[2], "") } }
        p(contexts.map { |context| Gyre.connect("tcp://localhost:\#{server.port}", tls: context, &:read) })
        exit!
      RUBY
      assert_equal %(["x", "x"]\n), result.out, result.err
    end
  end

  def test_connections_of_a_paused_server_wait
    serving do |server|
      former = keep(Gyre.connect(server.endpoints.first))
      assert_equal "A\n", (former << "a\n").gets
      server.paused = true
      later = keep(Gyre.connect(server.endpoints.first))
      later << "b\n"
      assert_equal "C\n", (former << "c\n").gets
      assert_equal 1, server.stats[:accepted]
      server.paused = false
      assert_equal "B\n", later.gets
      server.paused = true
    end
  end

  def test_close_ends_the_server_and_its_connections
    serving do |server|
      peer = keep(Gyre.connect(server.endpoints.first))
      assert_equal "A\n", (peer << "a\n").gets
      server.close
      assert_nil peer.gets
    end
  end

  def test_arguments_are_checked
    assert_raises(ArgumentError) { Gyre.connect("http//nonsense") }
    assert_raises(ArgumentError) { Gyre.listen("tcp://127.0.0.1:0:1") }
    assert_raises(ArgumentError) { Gyre.listen("tcp://127.0.0.1:0", connections_limit: 0) }
    assert_match(/127\.0\.0\.1:1/, assert_raises(Errno::ECONNREFUSED) { Gyre.connect("tcp://127.0.0.1:1") }.message)
  end

  private

  def serving(address = ADDRESSES.first, handler: nil, before: nil, **options)
    Dir.mktmpdir do |folder|
      address = "unix://#{folder}/socket" if address == "unix:"
      server = Gyre.listen(address, **options).tap { |made| before&.call(made) }
      handler ||= ->(peer) { peer.each_line { |line| peer.write(line.upcase) } }
      thread = Thread.new { server.each(&handler) }
      yield server
    ensure
      server&.close
      thread&.join
    end
  end

  # Over a Unix socket there is no name to look for.
  def trusting(contexts, address) = address == "unix:" ? Gyre::TLS.client(verify: false) : contexts.first

  def capture_reports(&block)
    _, err = capture(&block)
    err
  end
end
