# frozen_string_literal: true

# For `rackup -s gyre` and `rails server -u gyre`, found by this path.

require "gyre/web/handler"

module Rackup
  module Handler
    Gyre = ::Gyre::Web::Handler
    register :gyre, Gyre if respond_to?(:register)
  end
end
