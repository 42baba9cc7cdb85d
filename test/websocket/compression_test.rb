# frozen_string_literal: true

# Compressed messages (permessage-deflate, RFC 7692): the negotiation, what is compressed, contexts,
# and what a hostile client may send.

require "test_helper"
require "http/contract"
require "websocket/serving"
require "gyre/broadcast"

class WebSocketCompressionTest < Minitest::Test
  Compression = Gyre::WebSocket::Compression

  ALONE = "permessage-deflate; server_no_context_takeover; client_no_context_takeover"

  def setup
    skip "this build has no zlib" unless Compression.available?
  end

  def test_messages_are_compressed_alone_by_default
    { "permessage-deflate" => ALONE, "x-other, permessage-deflate; client_max_window_bits" => ALONE,
      "permessage-deflate; server_max_window_bits=\"10\" ; client_max_window_bits=9" => "#{ALONE}; server_max_window_bits=10",
      "permessage-deflate;server_max_window_bits = 15" => "#{ALONE}; server_max_window_bits=15" }.each do |offers, response|
      assert_equal response, negotiate(offers)&.response, offers
    end
    assert_equal [10, false, 10, false], negotiate("permessage-deflate; server_max_window_bits=10; client_max_window_bits=10").agreed
  end

  def test_contexts_are_kept_in_small_windows_unless_the_client_wants_none
    { "permessage-deflate" => ["server_max_window_bits=12", 12, true, 15, true],
      "permessage-deflate; client_max_window_bits" => ["server_max_window_bits=12; client_max_window_bits=12", 12, true, 12, true],
      "permessage-deflate; client_max_window_bits=8; server_max_window_bits=9" =>
        ["server_max_window_bits=9; client_max_window_bits=8", 9, true, 8, true],
      "permessage-deflate; server_no_context_takeover; client_max_window_bits=15" =>
        ["server_no_context_takeover; client_max_window_bits=12", 15, false, 12, true],
      "permessage-deflate; client_no_context_takeover; client_max_window_bits" =>
        ["client_no_context_takeover; server_max_window_bits=12", 12, true, 15, false] }.each do |offer, (response, *agreed)|
      compression = negotiate(offer, :takeover)
      assert_equal ["permessage-deflate; #{response}", agreed], [compression.response, compression.agreed], offer
    end
  end

  def test_wrong_offers_are_skipped
    wrong = ["", "deflate", "permessage-deflate-x", "permessage-deflate; unknown", "permessage-deflate; server_max_window_bits",
             "permessage-deflate; server_max_window_bits=7", "permessage-deflate; server_max_window_bits=16",
             "permessage-deflate; server_max_window_bits=09", "permessage-deflate; server_max_window_bits=+9",
             "permessage-deflate; client_max_window_bits=", "permessage-deflate; client_max_window_bits=x",
             "permessage-deflate; server_no_context_takeover=true", "permessage-deflate; client_no_context_takeover=1",
             "permessage-deflate; server_no_context_takeover; server_no_context_takeover", "permessage-deflate;", "permessage-deflate=1",
             "permessage-deflate; server_max_window_bits=8"] # zlib has no such window
    wrong.each do |offer|
      assert_nil negotiate(offer), offer
      assert_equal ALONE, negotiate("#{offer}, permessage-deflate")&.response, offer
    end
  end

  def test_nothing_is_agreed_on_if_not_asked_for
    assert_nil negotiate("permessage-deflate", false)
    assert_nil negotiate(nil)
    assert_raises(ArgumentError) { Gyre::WebSocket.open({}, compress: :always) { nil } }
  end

  private

  def negotiate(offers, compress = true) = Compression.negotiate(offers, compress)
end

module WebSocketCompressions
  include GyreTest::WebSocketServing

  Deflate = GyreTest::WebSocketServing::Deflate

  OFFER = "permessage-deflate; client_max_window_bits"
  LONG = "a message, and another message, "  * 20

  def setup
    super
    skip "this build has no zlib" unless Gyre::WebSocket::Compression.available?
  end

  def test_long_messages_are_compressed_alone
    serve(echo_app(compress: true)) do |served|
      peer = open_websocket(served, sec_websocket_extensions: OFFER)
      assert_equal WebSocketCompressionTest::ALONE, peer.handshake["sec-websocket-extensions"]
      deflate = Deflate.new
      [LONG, LONG, LONG.b, "häh" * 100].each do |message|
        opcode = message.encoding == Encoding::BINARY ? 2 : 1
        peer.send(opcode, deflate.deflate(message), reserved: 4)
        frame = peer.frame
        assert_equal [opcode, true, message.b], [frame.opcode, frame.compressed, deflate.inflate(frame.payload)]
        assert_operator frame.payload.bytesize, :<, message.bytesize / 5
      end
    end
  end

  def test_short_messages_and_those_that_gain_nothing_are_not_compressed
    { true => 255, :takeover => 63 }.each do |compress, short|
      serve(echo_app(compress: compress)) do |served|
        peer = open_websocket(served, sec_websocket_extensions: OFFER)
        ["x" * short, "", Random.new(1).bytes(100_000)].each do |message|
          frame = peer.binary(message).frame
          assert_equal [false, message.b], [frame.compressed, frame.payload]
        end
        frame = peer.text("x" * (short + 1)).frame
        assert_equal [true, "x" * (short + 1)], [frame.compressed, Deflate.new.inflate(frame.payload)]
      end
    end
  end

  def test_nothing_is_compressed_by_default
    serve(echo_app) do |served|
      peer = open_websocket(served, sec_websocket_extensions: OFFER)
      assert_nil peer.handshake["sec-websocket-extensions"]
      refute peer.text(LONG).frame.compressed
      assert_equal [1002, "a frame is compressed out of place"], peer.text("", reserved: 4).closed
    end
  end

  def test_later_messages_refer_to_earlier_ones
    serve(echo_app(compress: :takeover)) do |served|
      peer = open_websocket(served, sec_websocket_extensions: OFFER)
      deflate = Deflate.new(sends: true, receives: true, sent_bits: 12, received_bits: 12)
      message = Random.new(1).bytes(300).unpack1("H*")
      sizes = Array.new(3) do
        sent = deflate.deflate(message)
        frame = peer.text(sent, reserved: 4).frame
        assert_equal message, deflate.inflate(frame.payload)
        [sent.bytesize, frame.payload.bytesize]
      end
      assert_operator sizes.first.min, :>, 300
      assert_operator sizes.drop(1).flatten.max, :<, 40
      peer.binary(noise = Random.new(2).bytes(5000)) # not compressed, and no context for the next
      assert_equal noise, peer.message
      assert_equal message, deflate.inflate(peer.text(deflate.deflate(message), reserved: 4).frame.payload)
    end
  end

  def test_a_client_that_has_been_silent_costs_no_context
    sockets = Thread::Queue.new
    within_limits(1, 4, 8, what: "messages with a context and without") do |limit_s|
      app = socket_app(compress: :takeover, idle_timeout_s: limit_s) do |socket|
        sockets << socket
        socket.read
      end
      serve(app) do |served|
        peer = open_websocket(served, sec_websocket_extensions: OFFER)
        sizes = sizes_with_a_silence(peer, sockets.pop)
        sizes[1] < 40 && sizes[2] > 300
      rescue Minitest::Assertion, Gyre::WebSocket::ClosedError
        false # it was taken for one that has gone
      end
    end
  end

  # Of three messages with the same text; before the last one the client is silent until it is
  # asked.
  def sizes_with_a_silence(peer, socket)
    deflate = Deflate.new(receives: true)
    message = Random.new(1).bytes(300).unpack1("H*")
    Array.new(3) do |index|
      peer.send(10, peer.frame.payload) if index == 2
      socket.write(message)
      frame = peer.frame
      frame.opcode == 1 && deflate.inflate(frame.payload) == message or flunk "#{frame.opcode} came"
      frame.payload.bytesize
    end
  end

  def test_fragments_are_put_together_around_pings
    serve(echo_app(compress: true)) do |served|
      peer = open_websocket(served, sec_websocket_extensions: OFFER)
      pieces = Deflate.new.deflate(LONG).scan(/.{1,5}/mn)
      pieces.each_with_index do |piece, index|
        peer.send(index.zero? ? 1 : 0, piece, reserved: index.zero? ? 4 : 0, final: piece.equal?(pieces.last))
        assert_equal [10, "#{index}"], peer.ping("#{index}").frame.to_a.first(2) unless piece.equal?(pieces.last)
      end
      assert_equal LONG, Deflate.new.inflate(peer.frame.payload)
    end
  end

  def test_a_bomb_is_refused_in_little_memory
    skip "the system tells no highest memory" unless File.writable?("/proc/self/clear_refs")
    piece = Zlib::Deflate.new(9, -15).deflate("\0" * (16 << 20), Zlib::FULL_FLUSH)
    bomb = GyreTest::WebSocketServing.frame(2, piece * 32, reserved: 4) # of half a gigabyte
    serve(echo_app(compress: true)) do |served|
      peer = open_websocket(served, sec_websocket_extensions: OFFER)
      GC.start
      File.write("/proc/self/clear_refs", "5")
      before = highest_memory
      assert_equal [1009, "the message is too long"], peer.write(bomb).closed
      assert peer.ended?
      assert_operator highest_memory - before, :<, 30 << 20
    end
  end

  def test_the_limit_is_that_of_the_inflated_message
    [true, :takeover].each do |compress|
      serve(echo_app(compress: compress, message_bytes_limit: 100_000)) do |served|
        peer = open_websocket(served, sec_websocket_extensions: OFFER)
        assert_equal "x" * 100_000, Deflate.new.inflate(peer.text(Deflate.new.deflate("x" * 100_000), reserved: 4).frame.payload)
        assert_equal 1009, peer.text(Deflate.new.deflate("x" * 100_001), reserved: 4).closed.first
      end
    end
  end

  def test_what_is_not_compressed_text_is_refused
    faults = { "\xff\xff".b => 1007, Deflate.new.deflate(LONG)[0..-9] => 1007, Deflate.new.deflate("#{LONG}\xff") => 1007,
               Deflate.new.deflate("#{"ä" * 40_000}\xc3") => 1007, "" => 1007 }
    events = Module.new { def self.on_message(socket, message) = socket.write(message) }
    [echo_app(compress: :takeover), ->(env) { Gyre::WebSocket.open(env, events, compress: true) }].each do |app|
      serve(app) do |served|
        faults.each do |payload, code|
          peer = open_websocket(served, sec_websocket_extensions: OFFER)
          assert_equal code, peer.text(payload, reserved: 4).closed.first, payload.inspect
          assert peer.ended?
          peer.client.close
        end
        eventually { served.stats.values_at(:connections, :upgraded) == [0, 0] }
      end
    end
  end

  def test_only_the_first_frame_of_a_message_says_that_it_is_compressed
    serve(echo_app(compress: true)) do |served|
      [[1, 0], [1, 9], [1, 8], [9], [8], [10], [0]].each do |opcodes|
        peer = open_websocket(served, sec_websocket_extensions: OFFER)
        opcodes.each { |opcode| peer.send(opcode, "", reserved: 4, final: opcode != 1) }
        assert_equal 1002, peer.closed.first, opcodes
      end
    end
  end

  def test_a_broadcast_is_compressed_once_for_each_window
    sockets = Thread::Queue.new
    apps = { "/alone" => { compress: true }, "/context" => { compress: :takeover }, "/plain" => {} }
    app = lambda do |env|
      Gyre::WebSocket.open(env, **apps.fetch(env["PATH_INFO"])) do |socket|
        Gyre::Broadcast.subscribe(:compressed, socket)
        sockets << socket
        socket.each { |message| socket.write(message) }
      end
    end
    serve(app) do |served|
      offers = ["/alone", "/alone", "/context", "/plain"].map { |path| [path, OFFER] } + [["/alone", "#{OFFER}; server_max_window_bits=9"]]
      peers = offers.map { |path, offer| open_websocket(served, path, sec_websocket_extensions: offer) }
      peers.size.times { sockets.pop }
      deflates = Array.new(peers.size) { |index| Deflate.new(receives: index == 2) }
      counting(frames = []) { assert_equal 5, Gyre::Broadcast.publish(:compressed, LONG) }
      assert_equal [0, 9, 12, 15], frames.sort
      # What the client of a context has seen is no part of the server's.
      context = peers[2].text(LONG)
      assert_equal LONG, deflates[2].inflate(context.frame.payload)
      assert_equal LONG, deflates[2].inflate(context.frame.payload)
      assert_equal 5, served.on_loop { Gyre::Broadcast.publish(:compressed, LONG) }
      peers.each_with_index do |peer, index|
        (peer.equal?(context) ? 1 : 2).times do
          frame = peer.frame
          assert_equal [index != 3, LONG], [frame.compressed, frame.compressed ? deflates[index].inflate(frame.payload) : frame.payload]
        end
      end
      assert_equal LONG, deflates[2].inflate(peers[2].text(LONG).frame.payload)
    end
  end

  private

  def highest_memory
    File.read("/proc/self/status")[/^VmHWM:\s+(\d+)/, 1].to_i << 10
  end

  # Notes the windows that messages are framed for.
  def counting(windows)
    frame = Gyre::WebSocket.method(:frame)
    silence = $VERBOSE
    $VERBOSE = nil
    Gyre::WebSocket.define_singleton_method(:frame) { |message, bits| (windows << bits) && frame.call(message, bits) }
    yield
  ensure
    Gyre::WebSocket.define_singleton_method(:frame, frame)
    $VERBOSE = silence
  end
end

GyreTest::HTTPContract.run(WebSocketCompressions, over: %i[http1 tls http2])
