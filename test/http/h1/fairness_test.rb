# frozen_string_literal: true

# One client that is always ready, to send or to take, holds up no other: whatever can go on without
# waiting lets others have their turn. Each case runs on each native backend.

require "test_helper"
require "tempfile"
require "support/engines"
require "http/fairness"
require "http/serving"

module HTTP1Fairness
  include GyreTest::HTTPServing
  include GyreTest::HTTPFairness

  def assert_others_are_served(head, again = "", &work)
    assert_other_is_served(head, again, work, body_bytes_limit: 1 << 50, &:pop)
  end

  # Keeps the app slower than its client.
  COMPUTE = -> { 20_000.times { |number| Integer.sqrt(number) } }

  def test_an_upload_that_never_waits_lets_others_run
    assert_others_are_served("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: #{1 << 49}\r\n\r\n", "x" * 1000) do |env, go_on|
      COMPUTE.call while go_on.call && env["rack.input"].read(65_536)
      [200, {}, []]
    end
  end

  def test_a_chunked_upload_read_in_small_pieces_lets_others_run
    head = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
    assert_others_are_served(head, "4\r\nabcd\r\n") do |env, go_on|
      nil while go_on.call && env["rack.input"].read(3)
      [200, {}, []]
    end
  end

  def test_a_download_that_never_waits_lets_others_run
    assert_others_are_served("GET / HTTP/1.1\r\nhost: a\r\n\r\n") do |_env, go_on|
      piece = "x" * 30_000
      [200, {}, lambda do |stream|
        while go_on.call
          stream << piece
          COMPUTE.call
        end
      end]
    end
  end

  def test_a_file_that_its_client_takes_at_once_lets_others_run
    Tempfile.create("gyre") do |file|
      file.truncate(1 << 36)
      assert_others_are_served("GET / HTTP/1.1\r\nhost: a\r\n\r\n") do |_env, _go_on|
        body = Object.new
        body.define_singleton_method(:to_path) { file.path }
        body.define_singleton_method(:each) { raise "not asked for" }
        [200, {}, body]
      end
    end
  end

  def test_requests_that_are_there_already_stop_nobody
    request = "GET / HTTP/1.1\r\nhost: a\r\n\r\n"
    assert_others_are_served(request, request) do |_env, _go_on|
      COMPUTE.call
      [200, {}, ["x"]]
    end
  end

  def test_a_body_of_a_hundred_megabytes_lets_others_run
    body = ["x" * 50_000_000] * 2
    assert_others_are_served("GET / HTTP/1.1\r\nhost: a\r\n\r\n") { [200, {}, body] }
  end
end

GyreTest::Engines.test_case("HTTP1FairnessTest", backends: GyreTest::Engines::NATIVE) { include HTTP1Fairness }
