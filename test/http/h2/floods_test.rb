# frozen_string_literal: true

# Clients that flood an HTTP/2 server with what costs them little: each attack that has a CVE's
# number, and its relatives. Measured is the growth of the server's resident memory and its time on
# the processor, in a process of its own; another client is served meanwhile.

require "test_helper"
require "support/engines"
require "http/h2/serving"
require "http/h2/apart"

class H2FloodsTest < Minitest::Test
  include GyreTest::H2Apart

  H2 = GyreTest::H2
  HPACK = GyreTest::HPACK
  GET = HPACK.encode(H2.request).freeze
  POST = HPACK.encode(H2.request("POST")).freeze
  CALM = %i[enhance_your_calm].freeze

  def setup
    skip "this build has no HTTP/2" if GyreTest::H2Serving::BACKENDS.empty?
  end

  # CVE-2023-44487: requests that are cancelled at once, so that none counts as running.
  def test_cve_2023_44487_rapid_reset
    serve_apart do |server|
      flood = flood(server) { |number| H2.headers(id(number), GET) + H2.rst_stream(id(number)) }
      assert_bounded flood, *CALM
      assert_operator flood.stats[:begun], :<, 3000, "requests that reached the app"
    end
  end

  # The same with requests that an app sits on.
  def test_cve_2023_44487_rapid_reset_of_requests_that_wait
    block = HPACK.encode(H2.request("GET", "/sleep"))
    serve_apart do |server|
      flood = flood(server) { |number| H2.headers(id(number), block) + H2.rst_stream(id(number)) }
      assert_bounded flood, *CALM
      assert_operator flood.stats[:running], :<=, 102 # they go on, and count as streams; one is that of the stats
    end
  end

  # CVE-2025-8671 (MadeYouReset): the client makes the server reset the streams.
  def assert_made_to_reset_is_bounded
    block = HPACK.encode(H2.request("POST", "/sleep", content_length: 1))
    serve_apart do |server|
      flood = flood(server) { |number| H2.headers(id(number), block, end_stream: false) + yield(id(number)) }
      assert_bounded flood, *CALM, :protocol_error, :flow_control_error # some are errors of the connection at once
      assert_operator flood.stats[:running], :<=, 102
    end
  end

  def test_cve_2025_8671_made_to_reset_by_a_window_that_overflows
    assert_made_to_reset_is_bounded { |stream| H2.window_update(stream, H2::WINDOW_MOST) * 2 }
  end

  def test_cve_2025_8671_made_to_reset_by_a_window_of_0
    assert_made_to_reset_is_bounded { |stream| H2.window_update(stream, 0) }
  end

  def test_cve_2025_8671_made_to_reset_by_a_body_that_is_too_long
    assert_made_to_reset_is_bounded { |stream| H2.data(stream, "xx") }
  end

  # CVE-2024-28182 and CVE-2024-27316: a header block without an end.
  def test_cve_2024_28182_continuation_with_fields
    serve_apart do |server|
      more = H2.continuation(1, [["x" * 30, "y" * 1000]], end_headers: false)
      flood = flood(server, first: H2.headers(1, GET, end_headers: false)) { more }
      assert_bounded flood, *CALM
    end
  end

  def test_cve_2024_27316_continuation_without_content
    serve_apart do |server|
      flood = flood(server, first: H2.headers(1, GET, end_headers: false)) { H2.continuation(1, "", end_headers: false) * 100 }
      assert_bounded flood, *CALM
    end
  end

  # CVE-2019-9511: much is asked for, and let out byte by byte over many streams.
  def test_cve_2019_9511_data_dribble
    block = HPACK.encode(H2.request("GET", "/whole"))
    first = Array.new(100) { |number| H2.headers(id(number), block) }.join
    serve_apart do |server|
      drops = Array.new(100) { |number| H2.window_update(id(number), 1) }.join
      flood = flood(server, first: first, settings: { initial_window_size: 0 }, most_bytes: 1 << 20) { drops }
      assert_bounded flood, memory: 24 << 20, processor_s: 2
    end
  end

  # CVE-2019-9512: answers that nobody reads.
  def test_cve_2019_9512_ping
    serve_apart(write_timeout_s: 2) do |server|
      flood = flood(server, reads: false, most_bytes: 16 << 20) { H2.ping * 100 }
      assert_bounded flood
      refute_equal :taken, flood.outcome, flood.to_s
    end
  end

  # CVE-2019-9513: priorities that change all the time.
  def test_cve_2019_9513_resource_loop
    serve_apart do |server|
      flood = flood(server) { |number| H2.priority(id(number % 100), id((number + 1) % 100), exclusive: true) * 50 }
      assert_bounded flood
      flood = flood(server) { |number| H2.priority(id(number), number.zero? ? 0 : id(number - 1), exclusive: true) }
      assert_bounded flood
    end
  end

  # CVE-2019-9514: bad requests, and RST_STREAM frames that nobody reads.
  def test_cve_2019_9514_reset
    bad = HPACK.encode([*H2.request, %w[connection close]])
    serve_apart(write_timeout_s: 2) do |server|
      flood = flood(server, reads: false, most_bytes: 16 << 20) { |number| H2.headers(id(number), bad) }
      assert_bounded flood
      refute_equal :taken, flood.outcome, flood.to_s
      flood = flood(server) { |number| H2.headers(id(number), bad) }
      assert_bounded flood, *CALM, :protocol_error # more at once than the server's limit of streams
    end
  end

  # CVE-2019-9515: acknowledgements that nobody reads.
  def test_cve_2019_9515_settings
    serve_apart(write_timeout_s: 2) do |server|
      [H2.settings, H2.settings(initial_window_size: 1)].each do |settings|
        flood = flood(server, reads: false, most_bytes: 16 << 20) { settings * 100 }
        assert_bounded flood
        refute_equal :taken, flood.outcome, flood.to_s
      end
    end
  end

  # CVE-2019-9516: fields without a name and a value, which cost 32 bytes and more each.
  def test_cve_2019_9516_fields_without_content
    serve_apart do |server|
      ["\0\0\0".b * 5000, HPACK.literal("x", "") * 3000].each do |fields|
        assert_bounded flood(server) { |number| H2.headers(id(number), GET + fields) }
      end
    end
  end

  # CVE-2019-9517: the windows are open, the socket is not read.
  def assert_unread_output_is_bounded(path)
    block = HPACK.encode(H2.request("GET", path))
    serve_apart(write_timeout_s: 1) do |server|
      first = H2.window_update(0, H2::WINDOW_MOST - H2::WINDOW) + Array.new(100) { |number| H2.headers(id(number), block) }.join
      settings = { initial_window_size: H2::WINDOW_MOST }
      flood = flood(server, first: first, reads: false, settings: settings, most_bytes: 1 << 20) { |_| H2.window_update(1, 1) * 100 }
      assert_bounded flood, memory: 32 << 20
      eventually { server.stats[:running] == 1 } # write_timeout
    end
  end

  def test_cve_2019_9517_internal_data_buffering_of_whole = assert_unread_output_is_bounded("/whole")
  def test_cve_2019_9517_internal_data_buffering_of_pieces = assert_unread_output_is_bounded("/pieces")

  # CVE-2019-9518: frames without content.
  def assert_empty_frames_are_bounded(frame)
    serve_apart do |server|
      assert_bounded flood(server, first: H2.headers(1, POST, end_stream: false)) { frame * 100 }, *CALM
    end
  end

  def test_cve_2019_9518_empty_data = assert_empty_frames_are_bounded(H2.data(1, "", end_stream: false))
  def test_cve_2019_9518_empty_padded_data = assert_empty_frames_are_bounded(H2.data(1, "", end_stream: false, pad: 1))

  # CVE-2016-6581: one byte of a block stands for 4 KB.
  def test_cve_2016_6581_hpack_bomb
    serve_apart do |server|
      stored = HPACK.literal("x", "y" * 4000, kind: 0x40)
      bomb = GET + stored + HPACK.index(62) * 12_000
      assert_bounded flood(server) { |number| H2.headers(id(number), bomb) }
    end
  end

  def test_unknown_frames
    serve_apart do |server|
      assert_bounded flood(server) { H2.frame(0x77, "x" * 16_000) }
      assert_bounded flood(server) { H2.frame(0x77) * 100 }
    end
  end

  def test_updates_of_windows
    serve_apart do |server|
      assert_bounded flood(server) { H2.window_update(0, 1) * 100 }
    end
  end

  def test_pings_whose_answers_are_read
    serve_apart do |server|
      assert_bounded flood(server) { H2.ping * 10 }
    end
  end

  private

  def id(number)
    number * 2 + 1
  end
end
