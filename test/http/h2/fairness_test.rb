# frozen_string_literal: true

# A connection with a hundred streams that are always ready holds up no other connection, and none
# of its own streams. The greedy client is a process of its own, so that it never waits for this
# one's interpreter.

require "test_helper"
require "support/engines"
require "http/h2/serving"

module H2Fairness
  include GyreTest::H2Serving

  H2 = GyreTest::H2
  STREAMS = 100

  # Sends what it was given, and then the rest again and again; reads all that comes.
  GREEDY = <<~'RUBY'
    require "socket"
    port, head, again = Integer(ARGV[0]), *ARGV[1, 2].map { |text| [text].pack("H*") }
    socket = TCPSocket.new("127.0.0.1", port)
    socket.write(head)
    reader = Thread.new { nil while socket.readpartial(1 << 20) }
    reader.report_on_exception = false
    begin
      socket.write(again) until again.empty?
      reader.join
    rescue SystemCallError, IOError
    end
  RUBY

  def assert_another_connection_is_served(ends:, again: "", &work)
    served_other = false
    begun = Thread::Queue.new
    app = lambda do |env|
      next [200, {}, ["hello"]].tap { served_other = true } if env["PATH_INFO"] == "/other"

      begun << env["PATH_INFO"]
      work.call(env, -> { !served_other })
    end
    serve(app, limits: { streams_limit: STREAMS, write_timeout_s: 60, control_frames_limit: 1 << 30 }) do |served|
      heads = Array.new(STREAMS) { |number| H2.headers((2 * number) + 1, H2.request("POST", "/#{number}"), end_stream: ends) }
      hello = H2::PREFACE + H2.settings(initial_window_size: H2::WINDOW_MOST) + H2.window_update(0, H2::WINDOW_MOST - H2::WINDOW)
      arguments = [hello + heads.join, again].map { |text| text.unpack1("H*") }
      with_subprocess(*ruby_command("-e", GREEDY, served.port.to_s, *arguments)) do |pid, _out, _err|
        assert_equal Array.new(STREAMS) { |number| "/#{number}" }, Array.new(STREAMS) { begun.pop }.sort_by { |path| path[1..].to_i }
        assert_equal "hello", get(served, "GET /other HTTP/1.1").body
        Process.kill(:KILL, pid)
      end
      eventually { served.stats[:running].zero? }
      served.errors.clear # what becomes of the greedy one is tested elsewhere
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
