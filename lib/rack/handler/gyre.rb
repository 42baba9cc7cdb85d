# frozen_string_literal: true

# The handler for Rack 2, whose rackup looks for this file by its path. Rack 3 has no handlers and
# never loads it.

require "gyre/web/handler"

module Rack
  module Handler
    Gyre = ::Gyre::Web::Handler
    register "gyre", "Rack::Handler::Gyre" if respond_to?(:register)
  end
end
