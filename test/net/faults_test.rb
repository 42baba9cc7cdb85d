# frozen_string_literal: true

# One short conversation over transports, plain and TLS, and everything that can happen to it on its
# way: cut after each byte of each direction, in pieces of one byte, against full sockets. Whatever
# happens: what was accepted is delivered in order or an error that names the peer is raised,
# nothing hangs, nothing leaks.

require "test_helper"
require "support/transports"
require "support/fault_proxy"

class FaultsTest < Minitest::Test
  include GyreTest::Transports

  REQUEST = "a request\n"
  RESPONSE = "its response\n"
  # A side of the conversation, by calls that never wait.
  class Side
    attr_reader :transport, :received, :error

    def initialize(transport, words, answers:)
      @transport = transport
      @words = words
      @answers = answers
      @received = String.new
      @ended = @spoken = @queued = false
    end

    # Returns what changes when there is progress.
    def step
      unless @error
        read unless @ended
        speak if !@answers || @ended
      end
      [@received.bytesize, @ended, @spoken, @error]
    rescue SystemCallError, Gyre::TLS::Error => error
      @error = error
      [@error]
    end

    def done? = !@error.nil? || (@ended && @spoken)
    def ended? = @ended

    private

    def read
      bytes = @transport.read_available
      @ended = true if bytes.nil?
      @received << bytes if bytes.is_a?(String)
    end

    def speak
      @transport.queue(@words) unless @queued
      @queued = true
      @spoken = @transport.finish_available == true
    end
  end

  def test_plain_in_pieces_of_one_byte = assert_complete_in_pieces(secure: false)
  def test_tls_in_pieces_of_one_byte = assert_complete_in_pieces(secure: true)
  def test_plain_against_full_sockets = assert_complete_against_full_sockets(secure: false)
  def test_tls_against_full_sockets = assert_complete_against_full_sockets(secure: true)
  def test_plain_with_more_than_the_sockets_hold = assert_complete_with_much(secure: false)
  def test_tls_with_more_than_the_sockets_hold = assert_complete_with_much(secure: true)
  def test_plain_cut_after_each_byte = cut_after_each_byte(secure: false)
  def test_tls_cut_after_each_byte = cut_after_each_byte(secure: true)

  def fibers? = @fibers

  # The calls that wait, with a limit of time.
  def test_calls_that_wait_end_with_a_cut_too
    cuts = [0, 5, RESPONSE.bytesize].map { |after| [false, after] } + (0..1000).step(199).map { |after| [true, after] }
    cuts.product([false, true], GyreTest::FaultProxy::FAULTS).each do |(secure, after), fibers, fault|
      wait_for_cut(secure, fibers, after, fault)
    end
  end

  private

  def assert_complete_in_pieces(secure:)
    [1, 2, 7].each { |piece| assert_complete converse(secure, piece: piece) }
  end

  def assert_complete_against_full_sockets(secure:)
    converse(secure, full: true) { |client, server| assert_complete [client, server] }
  end

  def assert_complete_with_much(secure:)
    words = Array.new(2) { |seed| Random.new(seed).bytes(300_000) }
    assert_complete converse(secure, words: words, piece: 977, small: true), words
  end

  def cut_after_each_byte(secure:)
    lengths = nil
    converse(secure) { |*, proxy| lengths = proxy.directions.map(&:moved) }
    release
    lengths.each_with_index do |length, direction|
      (0..length).each do |after|
        faults = secure ? [GyreTest::FaultProxy::FAULTS[(after + direction) % 4]] : GyreTest::FaultProxy::FAULTS
        faults.each { |fault| check_cut(secure, direction, after, fault) }
      end
    end
  end

  def check_cut(secure, direction, after, fault)
    name = "#{fault} after #{after} bytes from the #{direction.zero? ? "client" : "server"}"
    sides = converse(secure, cut: direction, after: after, fault: fault, tcp: fault == :reset)
    sides.zip([RESPONSE, REQUEST], %w[server client]) do |side, words, peer|
      assert words.start_with?(side.received), "#{name}: received #{side.received.inspect}"
      assert side.done? || side.transport.wants || fault == :stall, "#{name}: nothing to wait for"
      assert_includes side.error.message, peer, name if side.error
      assert_equal words, side.received, "#{name}: an end" if side.ended? && secure
    end
    assert sides.all?(&:done?), "#{name}: hangs" unless fault == :stall
  ensure
    release
  end

  def assert_complete(sides, words = [REQUEST, RESPONSE])
    assert_equal [nil, nil], sides.map(&:error)
    assert_equal words.map(&:b), sides.map(&:received).reverse
    assert sides.all?(&:done?)
  ensure
    release
  end

  # Returns a client's and a server's, when both are through or nothing goes on.
  def converse(secure, words: [REQUEST, RESPONSE], full: false, small: false, tcp: false, **faults)
    pairs = Array.new(2) { tcp ? tcp_sockets : UNIXSocket.pair }
    pairs.flatten.each { |socket| %i[SNDBUF RCVBUF].each { |option| socket.setsockopt(:SOCKET, option, 1) } } if small || full
    junk = full ? pairs.map { |near, _| fill(near) } : []
    @proxy = proxy = GyreTest::FaultProxy.new(pairs, **faults)
    sides = begin_sides(proxy, secure, words)
    if full
      5.times { sides.each(&:step) } # nothing can be sent
      pairs.zip(junk) { |(_, far), length| far.read(length) }
    end
    go_through(sides, proxy)
    yield(*sides, proxy) if block_given?
    sides
  end

  def begin_sides(proxy, secure, words)
    client, server = proxy.sockets.zip(%w[server client]).map { |socket, peer| keep(Gyre::Transport.new(socket, peer)) }
    if secure # without a name, so that no session is resumed: each conversation has the same bytes
      client.begin_tls(@nameless ||= Gyre::TLS.client(verify: false))
      server.begin_tls(GyreTest::Transports.contexts[1])
    end
    [Side.new(client, words[0], answers: false), Side.new(server, words[1], answers: true)]
  end

  def go_through(sides, proxy)
    before = nil
    deadline_s = monotonic_s + 60
    until sides.all?(&:done?)
      moved = proxy.turn
      now = [*sides.map(&:step), proxy.moved]
      break if !moved && now == before && !under_way?(proxy)

      before = now
      flunk "no end after 60 s" if monotonic_s > deadline_s
    end
  end

  # Over TCP the kernel may have something under way still; a pair of Unix sockets has none. A reset
  # always comes.
  def under_way?(proxy)
    proxy.sockets.first.is_a?(TCPSocket) && sleep(0.0005)
  end

  def fill(socket)
    length = 0
    while (written = socket.write_nonblock("junk" * 100, exception: false)).is_a?(Integer)
      length += written
    end
    length
  end

  def wait_for_cut(secure, fibers, after, fault)
    @fibers = fibers
    proxy = GyreTest::FaultProxy.new(Array.new(2) { tcp_sockets }, cut: 1, after: after, fault: fault)
    sides = begin_sides(proxy, secure, [REQUEST, RESPONSE])
    client, server = sides.map(&:transport).each { |transport| transport.read_timeout_s = transport.write_timeout_s = 0.05 }
    over = false
    pump = Thread.new { proxy.turn || sleep(0.0005) until over }
    concurrently do
      jobs = [job { outcome { client.write(REQUEST) && client.close_write || client.read } },
              job { outcome { server.read.tap { server.write(RESPONSE) && server.close_write } } }]
      results = jobs.map { |each| value(each) }
      results.zip([RESPONSE, REQUEST], %w[server client]) do |result, words, peer|
        result.is_a?(String) ? assert(words.start_with?(result)) : assert_includes(result.message, peer)
      end
    end
  ensure
    over = true
    pump&.join
    @proxy = proxy
    release
  end

  def outcome
    yield
  rescue SystemCallError, Gyre::TLS::Error, Gyre::TimeoutError => error
    error
  end

  def release
    @transports&.each(&:abandon)
    @transports&.clear
    @proxy&.close
    @jobs&.clear
  end

  def teardown
    release
    super
  end
end
