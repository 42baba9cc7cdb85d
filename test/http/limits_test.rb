# frozen_string_literal: true

require "test_helper"
require "gyre/http/server"

# What every table of limits does stands in limits_test.rb.
class HTTPLimitsTest < Minitest::Test
  Limits = Gyre::HTTP::Limits

  def test_each_has_a_status_of_its_kind_or_none
    assert_empty Limits::TABLE.map(&:status).uniq - [nil, 408, 413, 414, 431, 503]
    assert_equal [414, 431, 413], Limits::TABLE.first(4).map(&:status).uniq
  end

  def test_zero_is_a_size_where_it_means_something
    zero = Limits::TABLE.select { |row| row.range.begin.zero? }
    names = %i[body_bytes_limit trailer_bytes_limit unread_body_bytes_limit body_rate_bytes_limit body_ahead_bytes_limit
               response_rate_bytes_limit requests_limit queue_limit]
    assert_equal names, zero.map(&:name)
    assert_equal 0, Limits.new(body_bytes_limit: 0).body_bytes_limit
  end
  def test_each_is_read_once_as_the_server_is_made
    read = []
    limits = Limits.new
    asked = Object.new
    [*Limits::TABLE.names, :websocket].each { |name| asked.define_singleton_method(name) { (read << name) && limits.public_send(name) } }
    Gyre::HTTP::Server.new(->(_env) { nil }, listeners: [], limits: asked)
    websockets = Limits::TABLE.names.grep(/\Awebsocket_/)
    assert_equal [*Limits::TABLE.names - websockets, :websocket].sort, read.sort
    assert_equal Gyre::WebSocket::Limits.new.to_h, limits.websocket
  end
end
