# frozen_string_literal: true

# Iodine in bench/realtime: see gyre.ru.

module Echo
  def self.on_message(client, message) = client.write(message)
end

module Room
  def self.on_open(client) = client.subscribe(:room)
  def self.on_message(_client, message) = Iodine.publish(:room, message)
end

module News
  def self.on_open(client) = client.subscribe(:news)
end

HANDLERS = { "/echo" => Echo, "/room" => Room, "/events" => News }.freeze

run(lambda do |env|
  next [404, {}, []] unless env["rack.upgrade?"]

  env["rack.upgrade"] = HANDLERS.fetch(env["PATH_INFO"])
  [200, {}, []]
end)
