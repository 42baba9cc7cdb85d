# frozen_string_literal: true

# Falcon with async-websocket in bench/realtime: see gyre.ru.

require "async/queue"
require "async/websocket/adapters/rack"

ROOM = {}.compare_by_identity

WebSocket = Async::WebSocket::Adapters::Rack

SEND = lambda do |socket, message|
  message.send(socket)
  socket.flush
end

map("/echo") do
  run(lambda do |env|
    WebSocket.open(env) do |socket|
      while (message = socket.read)
        SEND.call(socket, message)
      end
    end
  end)
end

map("/room") do
  run(lambda do |env|
    WebSocket.open(env) do |socket|
      ROOM[socket] = true
      while (message = socket.read)
        ROOM.each_key { |one| SEND.call(one, message) }
      end
    ensure
      ROOM.delete(socket)
    end
  end)
end

map("/events") do
  run ->(_env) { [200, { "content-type" => "text/event-stream" }, ->(stream) { stream.write(":\n\n") && Async::Queue.new.dequeue }] }
end
