# frozen_string_literal: true

module ApplicationCable
  # Anyone may come.
  class Connection < ActionCable::Connection::Base
  end
end
