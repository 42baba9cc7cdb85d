# frozen_string_literal: true

# node's ws as a client.

require "test_helper"
require "http/contract"
require "websocket/foreign"

module WebSocketClients
  include GyreTest::ForeignWebSockets

  def test_nodes_ws
    assert_client_finds(*node_ws, File.join(__dir__, "client.js"))
  end
end

GyreTest::HTTPContract.run(WebSocketClients, over: %i[http1 tls], backends: GyreTest::Engines::NATIVE.first(1))
