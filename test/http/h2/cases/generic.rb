# frozen_string_literal: true

# Cases: sound clients, which get what they ask for (h2spec's generic sections). Read by cases.rb
# only.

H2Cases.define do
  section "generic/1" do
    expect H2Cases::Expected.new(:settings), "the client's preface is answered by SETTINGS first",
           GyreTest::H2::PREFACE, settings(initial_window_size: 65_535)
  end

  section "generic/2" do
    no_window = settings(initial_window_size: 0)
    expect pong, "PRIORITY for an idle stream", priority(1), last_ping
    expect some_data, "WINDOW_UPDATE for a stream whose request has ended", no_window, get, window_update(1, 1)
    expect some_data, "PRIORITY for a stream whose request has ended", no_window, get, priority(1), window_update(1, 1)
    expect pong_or_close, "RST_STREAM for a stream whose request has ended", get, rst_stream(1), last_ping
    expect pong, "PRIORITY for a closed stream", get, ended, priority(1), last_ping
  end

  section "generic/3.1" do
    expect response, "DATA", post, data(1, "test")
    expect response, "DATA twice", post, data(1, "test", end_stream: false), data(1, "test")
    expect response, "DATA with padding", post, data(1, "test", pad: 5)
  end

  section "generic/3.2" do
    expect response, "HEADERS", get
    expect response, "HEADERS with padding", get(pad: 8)
    expect response, "HEADERS with a priority", get(priority: [0, false, 255])
  end

  section "generic/3.3" do
    expect response, "PRIORITY with the least weight", priority(1, weight: 0), get
    expect response, "PRIORITY with the greatest weight", priority(1, weight: 255), get
    expect response, "PRIORITY that depends on another stream", priority(3, 1, weight: 0), get
    expect response, "PRIORITY that is exclusive", priority(1, exclusive: true, weight: 0), get
    expect response, "PRIORITY for an idle stream, then HEADERS of a lower one", priority(3), get
  end

  section "generic/3.4" do
    expect pong_or_close, "RST_STREAM", post, rst_stream(1), last_ping
  end

  section "generic/3.5" do
    expect H2Cases::Expected.new(:settings_ack, 0), "SETTINGS with all parameters of RFC 7540",
           settings(header_table_size: 4096, enable_push: 1, max_concurrent_streams: 100, initial_window_size: 65_535,
                    max_frame_size: 16_384, max_header_list_size: 100)
  end

  section("generic/3.7") { expect pong, "PING", last_ping }
  section("generic/3.8") { expect pong_or_close, "GOAWAY", goaway(0, :no_error, "bye"), last_ping }

  section "generic/3.9" do
    expect pong, "WINDOW_UPDATE for the connection", window_update(0, 1), last_ping
    expect response, "WINDOW_UPDATE for a stream", get, window_update(1, 1)
  end

  section "generic/3.10" do
    block = GyreTest::HPACK.encode(fields)
    expect response, "CONTINUATION", headers(1, block[0, 5], end_headers: false), continuation(1, block[5..])
    expect response, "CONTINUATION twice", headers(1, block[0, 5], end_headers: false),
           continuation(1, block[5, 5], end_headers: false), continuation(1, block[10..])
  end

  section "generic/4" do
    expect response, "a GET", get
    expect response, "a HEAD", headers(1, fields("HEAD"))
    expect response, "a POST", post, data(1, "test")
    expect response, "a POST with trailers", post(1, [%w[trailer x-test]]), data(1, "test", end_stream: false),
           headers(1, [%w[x-test ok]])
  end

  section "generic/5" do
    hpack = GyreTest::HPACK
    name, name_coded = hpack.string("x-test"), hpack.string("\xf2\xb2\x4a\x84\xff", huffman: true)
    value, value_coded = hpack.string("h2spec"), hpack.string("\x9c\x48\xac\xa4", huffman: true)
    expect response, "an indexed field", get_with(hpack.index(58))
    { "with indexing" => [0x40, 6], "without indexing" => [0, 4], "never indexed" => [0x10, 4] }.each do |how, (kind, bits)|
      agent = hpack.index(58, kind: kind, bits: bits)
      expect response, "a literal #{how}, its name in the static table", get_with(agent + value)
      expect response, "a literal #{how}, its name in the static table, in Huffman's code", get_with(agent + value_coded)
      expect response, "a literal #{how}, with a new name", get_with(kind.chr.b + name + value)
      expect response, "a literal #{how}, with a new name, in Huffman's code", get_with(kind.chr.b + name_coded + value_coded)
    end
    expect response, "an update of the table's size", get_with("", before: hpack.table_size(128))
    expect response, "two updates of the table's size", get_with("", before: hpack.table_size(128) + hpack.table_size(4096))
  end
end
