# frozen_string_literal: true

# The handler for `rackup -s gyre` and `rails server -u gyre`, which find this file by its path.

require "gyre/web/handler"

module Rackup
  module Handler
    Gyre = ::Gyre::Web::Handler
    register :gyre, Gyre if respond_to?(:register)
  end
end
