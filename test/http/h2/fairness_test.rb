# frozen_string_literal: true

# A connection with a hundred streams that are always ready holds up no other connection, and none
# of its own streams.

require "test_helper"
require "support/engines"
require "http/fairness"
require "http/h2/serving"

module H2Fairness
  include GyreTest::H2Serving
  include GyreTest::HTTPFairness

  H2 = GyreTest::H2
  STREAMS = 100

  def assert_another_connection_is_served(ends:, again: "", &work)
    heads = Array.new(STREAMS) { |number| H2.headers((2 * number) + 1, H2.request("POST", "/#{number}"), end_stream: ends) }
    hello = H2::PREFACE + H2.settings(initial_window_size: H2::WINDOW_MOST) + H2.window_update(0, H2::WINDOW_MOST - H2::WINDOW)
    assert_other_is_served(hello + heads.join, again, work, streams_limit: STREAMS, control_frames_limit: 1 << 30) do |begun|
      assert_equal Array.new(STREAMS) { |number| "/#{number}" }, Array.new(STREAMS) { begun.pop }.sort_by { |path| path[1..].to_i }
    end
  end

  COMPUTE = -> { 2_000.times { |number| Integer.sqrt(number) } }

  def test_a_hundred_downloads_of_one_connection_stop_no_other
    piece = "x" * 30_000
    assert_another_connection_is_served(ends: true) do |_env, go_on|
      [200, {}, lambda do |stream|
        while go_on.call
          stream << piece
          COMPUTE.call
        end
      end]
    end
  end

  # Bytes come without end on one of the streams, and the app of that one reads as they come.
  def test_an_upload_beside_99_open_streams_stops_no_other
    assert_another_connection_is_served(ends: false, again: H2.data(1, "x" * 1000, end_stream: false)) do |env, go_on|
      if env["PATH_INFO"] == "/0"
        COMPUTE.call while go_on.call && env["rack.input"].read(65_536)
      else
        sleep(0.001) while go_on.call
      end
      [200, {}, []]
    end
  end
end

GyreTest::Engines.test_case("H2FairnessTest", backends: GyreTest::H2Serving::BACKENDS) { include H2Fairness }
