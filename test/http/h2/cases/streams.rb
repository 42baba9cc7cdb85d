# frozen_string_literal: true

# Cases: the states of a stream, its number, how many there are, and errors (h2spec's http2/5). Read
# by cases.rb only.

H2Cases.define do
  section "http2/5.1, idle" do
    expect stream_error(:protocol_error, :stream_closed), "DATA", data(1, "test")
    expect connection_error(:protocol_error), "RST_STREAM", rst_stream(1)
    expect connection_error(:protocol_error), "WINDOW_UPDATE", window_update(1, 100)
    expect connection_error(:protocol_error), "CONTINUATION", continuation(1, fields)
  end

  section "http2/5.1, half-closed (remote)" do
    expect stream_error(:stream_closed), "DATA", get, data(1, "test")
    expect stream_error(:stream_closed), "HEADERS", get, get
    expect stream_error(:stream_closed, :protocol_error), "CONTINUATION", get, continuation(1, fields)
  end

  section "http2/5.1, closed by RST_STREAM" do
    expect stream_error(:stream_closed), "DATA", post, rst_stream(1), data(1, "test")
    expect stream_error(:stream_closed), "HEADERS", post, rst_stream(1), get
    expect stream_error(:stream_closed, :protocol_error), "CONTINUATION", post, rst_stream(1), continuation(1, more_fields)
  end

  section "http2/5.1, closed" do
    expect stream_error(:stream_closed), "DATA", get, ended, data(1, "test")
    expect connection_error(:stream_closed), "HEADERS", get, ended, get
    expect connection_error(:stream_closed, :protocol_error), "CONTINUATION", get, ended, continuation(1, more_fields)
  end

  section "http2/5.1.1" do
    expect connection_error(:protocol_error), "a stream with an even number", get(2)
    expect connection_error(:protocol_error), "a stream with a lower number than the one before", get(5), get(3)
  end

  section "http2/5.1.2" do
    expect stream_error(:protocol_error, :refused_stream), "more streams at once than SETTINGS_MAX_CONCURRENT_STREAMS",
           settings(initial_window_size: 0),
           ->(client) { (0..client.settings.fetch(:max_concurrent_streams)).map { |number| get(number * 2 + 1) }.join }
  end

  section "http2/5.3.1" do
    # RFC 9113 has no such rule any more (section 5.3.2), and the newest libnghttp2 ignores both.
    refused = H2Cases::Expected.new(:pong_or_stream_error, nil, [:protocol_error], H2Cases::Table::PING)
    expect refused, "HEADERS that depend on themselves", get(priority: [1, false, 255]), last_ping
    expect refused, "PRIORITY that depends on itself", priority(2, 2), last_ping
  end

  section "http2/5.4.1" do
    bad_ping = frame(:ping, "\0" * 8, stream: 3)
    expect H2Cases::Expected.new(:close), "a connection error ends the connection", bad_ping
    expect connection_error(:protocol_error), "a connection error is told by GOAWAY", bad_ping
  end

  section "http2/5.5" do
    expect pong, "an unknown frame", unknown_frame, last_ping
    expect connection_error(:protocol_error), "an unknown frame within a header block", get(end_headers: false), unknown_frame
  end
end
