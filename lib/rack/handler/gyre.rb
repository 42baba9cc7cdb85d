# frozen_string_literal: true

# The handler for Rack 2; rackup finds this file by its path.

require "gyre/web/handler"

module Rack
  module Handler
    Gyre = ::Gyre::Web::Handler
    register "gyre", "Rack::Handler::Gyre" if respond_to?(:register)
  end
end
