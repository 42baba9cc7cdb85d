# frozen_string_literal: true

# Connections of sockets that several processes share are taken in turns, on each backend: none is
# left waiting, however many come at once, and a stop takes what waits.

require "test_helper"
require "gyre"
require_relative "../serving"

class WebClusterTurnsTest < Minitest::Test
  include GyreTest::Serving

  APP = "run ->(env) { [200, {}, [Process.pid.to_s]] }"

  %w[epoll io_uring poll].each do |backend|
    define_method(:"test_all_connections_are_taken_on_#{backend}") do
      skip "#{backend} does not open here" unless Gyre::Scheduler.availables.include?(backend)
      serve("-w", "2", app: APP, env: { "GYRE_BACKEND" => backend }) do |program|
        sockets = Array.new(200) { program.request("/", connection: "keep-alive") }
        assert(sockets.all? { |socket| socket.gets("\r\n\r\n").start_with?("HTTP/1.1 200") })
      ensure
        sockets&.each(&:close)
      end
    end
  end
end
