# frozen_string_literal: true

# Cases: the beginning of a connection, and the format of frames (h2spec's http2/3 and http2/4).
# Read by cases.rb only.

H2Cases.define do
  section "http2/3.5" do
    expect H2Cases::Expected.new(:settings), "the server's first frame is SETTINGS",
           GyreTest::H2::PREFACE, settings(initial_window_size: 65_535)
    expect H2Cases::Expected.new(:close), "a preface that is none", :raw, "INVALID CONNECTION PREFACE\r\n\r\n"
  end

  section "http2/4.1" do
    expect pong, "a frame of an unknown type", unknown_frame, last_ping
    expect pong, "a frame with undefined flags", frame(:ping, H2Cases::Table::PING, flags: 0x16)
    expect pong, "a frame with the reserved bit", frame(:ping, H2Cases::Table::PING, stream: 1 << 31)
  end

  section "http2/4.2" do
    expect response, "DATA of 2^14 bytes", post, data(1, "x" * 16_384)
    expect stream_error(:frame_size_error), "DATA longer than SETTINGS_MAX_FRAME_SIZE", post,
           ->(client) { data(1, "x" * (client.max_frame_bytes + 1)) }
    expect connection_error(:frame_size_error), "HEADERS longer than SETTINGS_MAX_FRAME_SIZE",
           ->(client) { get(1, Array.new(client.max_frame_bytes / 4000 + 1) { |number| ["x-long-#{number}", H2Cases::Table::LONG] }) }
  end

  section "http2/4.3" do
    expect connection_error(:compression_error), "a header block that is none", frame(:headers, "\x40", stream: 1, flags: 0x5)
    expect connection_error(:protocol_error), "PRIORITY within a header block", post(end_headers: false), priority(1),
           continuation(1, more_fields)
    expect connection_error(:protocol_error), "HEADERS of another stream within a header block", post(end_headers: false),
           get(3), continuation(1, more_fields)
  end
end
