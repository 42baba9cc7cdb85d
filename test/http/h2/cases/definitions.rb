# frozen_string_literal: true

# Cases: each frame's own rules, flow control and error codes (h2spec's http2/6 and http2/7). Read
# by cases.rb only.

H2Cases.define do
  wrong = connection_error(:protocol_error)
  wrong_size = connection_error(:frame_size_error)

  section "http2/6.1" do
    expect wrong, "DATA of stream 0", data(0, "test")
    expect stream_error(:stream_closed), "DATA for a stream that is not open", headers(1, fields("POST")), data(1, "test")
    expect wrong, "DATA with more padding than bytes", post(1, [%w[content-length 4]]),
           frame(:data, "\x06test", stream: 1, flags: 0x9)
  end

  section "http2/6.2" do
    expect wrong, "PRIORITY behind HEADERS without END_HEADERS", post(end_headers: false), priority(1), continuation(1, more_fields)
    expect wrong, "HEADERS of another stream behind HEADERS without END_HEADERS", post(end_headers: false), get(3),
           continuation(1, more_fields)
    expect wrong, "HEADERS of stream 0", get(0)
    block = GyreTest::HPACK.encode(fields)
    expect stream_error(:protocol_error), "HEADERS with more padding than bytes",
           frame(:headers, (block.bytesize + 2).chr.b + block, stream: 1, flags: 0xd)
  end

  section "http2/6.3" do
    expect wrong, "PRIORITY for stream 0", priority(0)
    expect stream_error(:frame_size_error), "PRIORITY that is not 5 bytes long", get, frame(:priority, "\x80\0\0\1", stream: 1)
  end

  section "http2/6.4" do
    expect wrong, "RST_STREAM for stream 0", rst_stream(0)
    expect wrong, "RST_STREAM for an idle stream", rst_stream(1)
    expect stream_error(:frame_size_error), "RST_STREAM that is not 4 bytes long", get, frame(:rst_stream, "\0" * 3, stream: 1)
  end

  section "http2/6.5" do
    expect wrong_size, "SETTINGS with ACK and a payload", frame(:settings, "\0", flags: GyreTest::H2::ACK)
    expect wrong, "SETTINGS for a stream", frame(:settings, "\0\3\0\0\0\x64", stream: 1)
    expect stream_error(:protocol_error, :frame_size_error), "SETTINGS that are not a multiple of 6 bytes long", frame(:settings, "\0\3\0")
  end

  section "http2/6.5.2" do
    expect wrong, "SETTINGS_ENABLE_PUSH of 2", settings(enable_push: 2)
    expect connection_error(:flow_control_error), "SETTINGS_INITIAL_WINDOW_SIZE of 2^31", settings(initial_window_size: 1 << 31)
    expect wrong, "SETTINGS_MAX_FRAME_SIZE below 2^14", settings(max_frame_size: 16_383)
    expect wrong, "SETTINGS_MAX_FRAME_SIZE of 2^24", settings(max_frame_size: 1 << 24)
    expect pong, "SETTINGS with an unknown parameter", settings(0xff => 1), last_ping
  end

  section "http2/6.5.3" do
    expect one_byte, "SETTINGS_INITIAL_WINDOW_SIZE twice in one frame: the last one counts",
           settings([[:initial_window_size, 100], [:initial_window_size, 1]]), settings_acked, get
    expect H2Cases::Expected.new(:settings_ack, 0), "SETTINGS are acknowledged", settings(enable_push: 0)
  end

  section "http2/6.7" do
    expect pong, "PING is answered with its content", last_ping
    expect pong, "PING with ACK is not answered", ping("an ack,\0", ack: true), last_ping
    expect wrong, "PING for a stream", frame(:ping, "\0" * 8, stream: 1)
    expect wrong_size, "PING that is not 8 bytes long", frame(:ping, "\0" * 6)
  end

  section "http2/6.8" do
    expect wrong, "GOAWAY for a stream", frame(:goaway, "\0" * 8, stream: 1)
  end

  section "http2/6.9" do
    expect wrong, "WINDOW_UPDATE of 0 for the connection", window_update(0, 0)
    expect stream_error(:protocol_error), "WINDOW_UPDATE of 0 for a stream", post, window_update(1, 0)
    expect wrong_size, "WINDOW_UPDATE that is not 4 bytes long", frame(:window_update, "\0\0\1")
  end

  section "http2/6.9.1" do
    most = GyreTest::H2::WINDOW_MOST
    expect one_byte, "a window of 1 gets one byte", settings(initial_window_size: 1), settings_acked, get
    expect connection_error(:flow_control_error), "a window of the connection beyond 2^31-1", window_update(0, most), window_update(0, most)
    expect H2Cases::Expected.new(:reset, 1, [:flow_control_error]), "a window of a stream beyond 2^31-1",
           post, window_update(1, most), window_update(1, most)
  end

  section "http2/6.9.2" do
    expect one_byte, "SETTINGS_INITIAL_WINDOW_SIZE changes the windows of open streams",
           settings(initial_window_size: 0), settings_acked, get, settings(initial_window_size: 1)
    expect H2Cases::Expected.new(:next_data, 1, nil, 1), "a window that has become negative",
           settings(initial_window_size: 3), settings_acked, get, data_came, settings(initial_window_size: 2),
           settings_acked(3), window_update(1, 2)
    expect connection_error(:flow_control_error), "SETTINGS_INITIAL_WINDOW_SIZE beyond 2^31-1",
           frame(:settings, "\0\4\x80\0\0\0")
    most = GyreTest::H2::WINDOW_MOST
    expect connection_error(:flow_control_error), "SETTINGS_INITIAL_WINDOW_SIZE that widens an open stream beyond 2^31-1",
           post, window_update(1, most - 65_535), settings(initial_window_size: most)
    expect response, "SETTINGS_INITIAL_WINDOW_SIZE that widens an open stream to 2^31-1",
           post, window_update(1, 1), settings(initial_window_size: most - 1), data(1, "test")
  end

  section "http2/6.10" do
    open = get(end_headers: false)
    expect response, "CONTINUATION twice behind HEADERS", open, continuation(1, more_fields, end_headers: false),
           continuation(1, more_fields)
    expect wrong, "DATA behind CONTINUATION without END_HEADERS", post(end_headers: false),
           continuation(1, more_fields, end_headers: false), data(1, "test")
    expect wrong, "CONTINUATION of stream 0", open, continuation(0, more_fields)
    expect wrong, "CONTINUATION behind HEADERS with END_HEADERS", get, continuation(1, more_fields)
    expect wrong, "CONTINUATION behind CONTINUATION with END_HEADERS", open, continuation(1, more_fields), continuation(1, more_fields)
    expect wrong, "CONTINUATION behind DATA", post(end_headers: false), data(1, "test"),
           continuation(1, more_fields, end_headers: false), continuation(0, more_fields)
  end

  section "http2/7" do
    expect pong_or_close, "GOAWAY with an unknown code", goaway(0, 0xff), last_ping
    expect pong_or_close, "RST_STREAM with an unknown code", post, rst_stream(1, 0xff), last_ping
  end
end
