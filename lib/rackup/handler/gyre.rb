# frozen_string_literal: true

# What makes `rackup -s gyre` and `rails server -u gyre` work: both look for this file by its path.

require "gyre/web/handler"

module Rackup
  # Where rackup looks.
  module Handler
    Gyre = ::Gyre::Web::Handler
    register :gyre, Gyre if respond_to?(:register)
  end
end
