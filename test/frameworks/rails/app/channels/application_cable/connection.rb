# frozen_string_literal: true

module ApplicationCable
  # Accepts each connection.
  class Connection < ActionCable::Connection::Base
  end
end
