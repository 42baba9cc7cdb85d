# frozen_string_literal: true

# Gyre in bench/realtime: /echo and /room (all that is sent goes to all), with a handler or, where REALTIME is "fiber", with a
# fiber for each socket and stream; /events is a stream that nothing is published to. Clients answer no pings, and opening 15,000
# of them may take a minute.

require "gyre/broadcast"

LIMITS = { idle_timeout_s: 600 }.freeze

module Echo
  def self.on_message(socket, message) = socket.write(message)
end

module Room
  def self.on_open(socket) = Gyre::Broadcast.subscribe("room", socket)
  def self.on_message(_socket, message) = Gyre::Broadcast.publish("room", message)
end

if ENV["REALTIME"] == "fiber"
  map("/echo") { run ->(env) { Gyre::WebSocket.open(env, **LIMITS) { |socket| socket.each { |message| socket.write(message) } } } }
  map("/room") do
    run(lambda do |env|
      Gyre::WebSocket.open(env, **LIMITS) do |socket|
        Gyre::Broadcast.subscribe("room", socket)
        socket.each { |message| Gyre::Broadcast.publish("room", message) }
      end
    end)
  end
  map("/events") do
    run(lambda do |env|
      Gyre::SSE.open(env) do |events|
        Gyre::Broadcast.subscribe("news", events)
        events.listen
      end
    end)
  end
else
  map("/echo") { run ->(env) { Gyre::WebSocket.open(env, Echo, **LIMITS) } }
  map("/room") { run ->(env) { Gyre::WebSocket.open(env, Room, **LIMITS) } }
  map("/events") { run ->(env) { Gyre::SSE.open(env, topics: ["news"]) } }
end
