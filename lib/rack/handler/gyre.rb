# frozen_string_literal: true

# The same for Rack 2, whose own rackup looks for this file by its path. Rack 3 has no handlers, and
# never loads it.

require "gyre/web/handler"

module Rack
  # Where the rackup of Rack 2 looks.
  module Handler
    Gyre = ::Gyre::Web::Handler
    register "gyre", "Rack::Handler::Gyre" if respond_to?(:register)
  end
end
