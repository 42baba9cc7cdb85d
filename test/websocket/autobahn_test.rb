# frozen_string_literal: true

# The Autobahn test suite's cases (autobahn_cases.rb) against an echo, with a fiber and without.

require "test_helper"
require "http/contract"
require "websocket/autobahn_cases"

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
