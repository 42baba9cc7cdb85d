# frozen_string_literal: true

# The handler for Rack 2, found by rackup by this path.

require "gyre/web/handler"

module Rack
  module Handler
    Gyre = ::Gyre::Web::Handler
    register "gyre", "Rack::Handler::Gyre" if respond_to?(:register)
  end
end
