# frozen_string_literal: true

# Action Cable's own server at /cable, without Rails around it: connections that are welcomed and
# pinged every three seconds, and a room whose action sends a text to all.

require "action_cable"

ActionCable.server.config.tap do |config|
  config.cable = { "adapter" => "async" }
  config.logger = Logger.new(File::NULL, level: :info) # as in production
  config.disable_request_forgery_protection = true
end

class RoomChannel < ActionCable::Channel::Base
  TEXT = "x" * 64

  def subscribed = stream_from("room")
  def speak(_data) = ActionCable.server.broadcast("room", TEXT)
end

# As config.gyre.cable = :hijack in a Rails application.
if ENV["REALTIME"] == "hijack-cable"
  require "gyre/web/frameworks/cable"
  Gyre::Web::Cable.define_singleton_method(:apply) { |_log| nil }
end

run ActionCable.server
