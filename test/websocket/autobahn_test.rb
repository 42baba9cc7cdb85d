# frozen_string_literal: true

# The Autobahn test suite's cases (autobahn_cases.rb, autobahn_compression_cases.rb) against an
# echo, with a fiber and without.

require "test_helper"
require "http/contract"
require "websocket/autobahn_cases"
require "websocket/autobahn_compression_cases"

module WebSocketAutobahn
  include GyreTest::WebSocketServing

  # Sends back what comes.
  module Echo
    def self.on_message(socket, message)
      socket.write(message)
    end
  end

  def test_an_echo_in_a_fiber
    serve(echo_app) { |served| check(served) }
  end

  def test_an_echo_without_a_fiber
    serve(->(env) { Gyre::WebSocket.open(env, Echo) }) { |served| check(served) }
  end

  def test_a_compressed_echo_with_context
    serve(echo_app(compress: :takeover)) { |served| check_compressed(served) }
  end

  def test_a_compressed_echo_without_context_and_without_a_fiber
    serve(->(env) { Gyre::WebSocket.open(env, Echo, compress: true) }) { |served| check_compressed(served) }
  end

  private

  def check(served)
    GyreTest::AutobahnCases::ALL.each do |example|
      peer = open_websocket(served)
      send_in_pieces(peer, example)
      assert_equal [example.answers, example.code], conversation(peer), example.name
      assert peer.ended?, example.name
      peer.client.close
    end
    eventually { served.stats.values_at(:connections, :upgraded) == [0, 0] }
  end

  def check_compressed(served)
    skip "this build has no zlib" unless Gyre::WebSocket::Compression.available?
    GyreTest::AutobahnCompressionCases::ALL.each do |example|
      peer = open_websocket(served, sec_websocket_extensions: example.offer)
      agreed = peer.handshake["sec-websocket-extensions"]
      deflate = GyreTest::WebSocketServing::Deflate.new(receives: !agreed.include?("server_no_context_takeover"),
        received_bits: agreed[/server_max_window_bits=(\d+)/, 1]&.to_i || 15)
      example.count.times do |index|
        message = example.data.byteslice(index * example.size % (example.data.bytesize - example.size), example.size)
        peer.write(*compressed_frames(example, deflate.deflate(message)))
        frame = peer.frame
        answer = frame.compressed ? deflate.inflate(frame.payload) : frame.payload
        assert_equal [example.opcode, message.hash], [GyreTest::AutobahnCases::OPCODES.key(frame.opcode), answer.b.hash], example.name
      end
      assert_equal 1000, peer.close(1000).closed.first, example.name
      peer.client.close
    end
  end

  def compressed_frames(example, payload)
    size = example.fragment.zero? ? payload.bytesize : example.fragment
    pieces = (0...payload.bytesize).step(size).map { |offset| payload.byteslice(offset, size) }
    pieces.each_with_index.map do |piece, index|
      opcode = index.zero? ? GyreTest::AutobahnCases::OPCODES.fetch(example.opcode) : 0
      GyreTest::WebSocketServing.frame(opcode, piece, reserved: index.zero? ? 4 : 0, final: index == pieces.size - 1)
    end
  end

  def send_in_pieces(peer, example)
    pieces = example.pieces ? example.bytes.scan(/.{1,#{example.pieces}}/mn) : [example.bytes]
    pieces.each { |piece| peer.write(piece) }
  rescue Errno::EPIPE, Errno::ECONNRESET
    nil # refused before the end
  end

  def conversation(peer)
    answers = []
    until (frame = peer.frame).opcode == GyreTest::WebSocketServing::CLOSE
      answers << [GyreTest::AutobahnCases::OPCODES.key(frame.opcode), frame.payload]
    end
    [answers, frame.payload.unpack1("n")]
  end
end

GyreTest::HTTPContract.run(WebSocketAutobahn, over: %i[http1 tls])
