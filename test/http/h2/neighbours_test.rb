# frozen_string_literal: true

# What the end of one stream must not do to the others of its connection: streams that the server
# leaves out, heads that are malformed, responses that their client does not take.

require "test_helper"
require "support/engines"
require "http/h2/serving"

module H2Neighbours
  include GyreTest::H2Serving

  H2 = GyreTest::H2
  HPACK = GyreTest::HPACK

  # Serves an app whose /wait responds when the block's gate opens.
  def with_gate(**limits, &block)
    gate = Thread::Queue.new
    begun = Thread::Queue.new
    app = lambda do |env|
      if env["PATH_INFO"] == "/wait"
        begun << true
        gate.pop
      end
      [200, {}, ["hello"]]
    end
    serve(app, limits: limits) { |served| block.call(served, gate, begun) }
  ensure
    gate.close
  end

  # RFC 9113, section 6.8: what was on its way when GOAWAY was sent is discarded.
  def test_a_body_after_a_goaway_ends_no_earlier_stream
    with_gate(keep_alive_requests_limit: 2) do |served, gate, begun|
      client = connect(served)
      kept = client.open("GET /wait", end_stream: true)
      begun.pop
      assert_equal 200, client.open("GET /", end_stream: true).head.status
      client.wait { client.frames.any? { |frame| frame.type == :goaway } }
      late = client.open("POST /late")
      client.write(H2.data(late.id, "x", end_stream: false), H2.headers(late.id, HPACK.encode([%w[trailer 1]])))
      gate << true
      assert_equal "hello", kept.response.body
      assert_equal :no_error, client.failure
    end
  end

  # RFC 9113, section 5.1.2: until the client has the server's SETTINGS it may open as many as it
  # likes; those beyond the limit are refused, with the bodies that follow them.
  def test_streams_beyond_the_limit_are_refused_alone_with_their_bodies
    with_gate(streams_limit: 2) do |served, _gate, _begun|
      client = connect(served, settings: nil)
      heads = [1, 3, 5, 7].map { |id| H2.headers(id, H2.request("POST"), end_stream: false) }
      bodies = [5, 7, 1, 3].map { |id| H2.data(id, "x") }
      client.write(H2::PREFACE, H2.settings, *heads, *bodies)
      assert_equal %i[refused_stream refused_stream], ([5, 7].map { |id| client.stream(id).failure })
      assert_equal %w[hello hello], ([1, 3].map { |id| client.stream(id).response.body })
    end
  end

  def test_a_head_with_a_malformed_field_is_not_one_that_comes_late
    assert_malformed_is_not_late(%w[Upper case])
  end

  def test_a_head_with_a_malformed_pseudo_header_is_not_one_that_comes_late
    assert_malformed_is_not_late(%w[:path /])
  end

  def assert_malformed_is_not_late(field)
    with_gate(head_timeout_s: 0.05) do |served, gate, begun|
      client = connect(served)
      kept = client.open("GET /wait", end_stream: true)
      begun.pop
      assert_equal :protocol_error, client.open_fields([*H2.request, field]).failure
      slow = connect(served).greet # the limit of time is over when this one meets it
      slow.write(H2.headers(1, HPACK.encode(H2.request)[0, 9], end_headers: false)).failure
      client.synchronize
      gate << true
      assert_equal "hello", kept.response.body
    end
  end

  def test_frames_of_a_client_do_not_prolong_the_time_for_a_response
    with_gate(write_timeout_s: 0.1, control_frames_limit: 1_000_000) do |served, _gate, _begun|
      client = connect(served, settings: { initial_window_size: 0 })
      client.obliging = false
      stream = client.open("GET /", end_stream: true)
      assert_equal 200, stream.head.status
      eventually(what: "a reset") { client.synchronize && stream.over? }
      assert_equal :cancel, stream.error
    end
  end

  # The time in which a client takes nothing of its response begins with the response.
  def test_a_request_that_waits_for_others_is_not_a_response_that_its_client_ignores
    with_gate(write_timeout_s: 0.05, requests_limit: 1) do |served, gate, begun|
      client = connect(served, settings: { initial_window_size: 0 })
      client.obliging = false
      first = client.open("GET /wait", end_stream: true)
      begun.pop
      waiting = client.open("GET /", end_stream: true)
      refused = client.open("GET /", end_stream: true, expect: "more") # its response has a body that the client does not take
      assert_equal :cancel, refused.failure
      client.write(H2.settings(initial_window_size: 1000))
      client.synchronize # the window is open before the time begins
      gate << true
      assert_equal %w[hello hello], ([first, waiting].map { |stream| stream.response.body })
    end
  end
end

GyreTest::Engines.test_case("H2NeighboursTest", backends: GyreTest::H2Serving::BACKENDS) { include H2Neighbours }
