# frozen_string_literal: true

# Action Cable's own server at /cable, without Rails around it: connections that are welcomed and
# pinged every three seconds.

require "action_cable"

ActionCable.server.config.tap do |config|
  config.cable = { "adapter" => "async" }
  config.logger = Logger.new(File::NULL)
  config.disable_request_forgery_protection = true
end

run ActionCable.server
