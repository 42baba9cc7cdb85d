# frozen_string_literal: true

# AnyCable's Rack server at /cable, with its RPC server in the same process and without Rails: a
# room as in cable.ru, whose messages come without a broker.

require "socket"
require "anycable-rack-server"
require "anycable/grpc"

# What a cable does, in AnyCable's terms.
class Room
  TEXT = JSON.generate("x" * 64)

  def initialize(socket, **) = @socket = socket
  def identifiers_json = "{}"
  def handle_open = @socket.transmit(%({"type":"welcome"}))
  def handle_close = nil

  def handle_channel_command(identifier, command, _data)
    if command == "subscribe"
      @socket.subscribe(identifier, "room")
      @socket.transmit(JSON.generate(identifier: identifier, type: "confirm_subscription"))
    else
      AnyCable.broadcast("room", TEXT)
    end
    true
  end
end

# Gives the server the messages of its own process.
Direct = Struct.new(:subscriber) do
  def announce! = nil
  def broadcast(stream, payload, **) = Thread.new { subscriber.__send__(:handle_message, JSON.generate(stream: stream, data: payload)) }
end

AnyCable.config.log_level = "fatal"
AnyCable.config.broadcast_adapter = "http"
AnyCable.connection_factory = Room.method(:new)
AnyCable::Rack.config.rpc_addr = "127.0.0.1:#{TCPServer.open('127.0.0.1', 0) { |free| free.local_address.ip_port }}"
server = AnyCable::Rack::Server.new
AnyCable.broadcast_adapter = Direct.new(server.broadcast)
AnyCable::GRPC::Server.new(host: AnyCable::Rack.config.rpc_addr, **AnyCable.config.to_grpc_params).start
server.start!

map("/cable") { run server }
