# frozen_string_literal: true

# Cases: header blocks that cannot be decoded (h2spec's hpack sections, which are RFC 7541's). Read
# by cases.rb only.

H2Cases.define do
  wrong = connection_error(:compression_error)
  hpack = GyreTest::HPACK
  test_name = "\x00\x85\xf2\xb2\x4a\x84\xff".b

  section "hpack/2.3.3" do
    expect wrong, "an index beyond the tables", get_with(hpack.index(70))
    expect wrong, "a name's index beyond the tables", get_with(hpack.index(70, kind: 0x40, bits: 6) + hpack.string(""))
  end

  section "hpack/4.2" do
    expect wrong, "an update of the table's size at a block's end", get_with(hpack.table_size(1))
  end

  section "hpack/5.2" do
    expect wrong, "Huffman's code with more than 7 bits of padding", get_with(test_name + "\x84\x49\x50\x9f\xff".b)
    expect wrong, "Huffman's code padded by zeros", get_with(test_name + "\x83\x49\x50\x90".b)
    expect wrong, "Huffman's code with EOS", get_with(test_name + "\x87\x49\x51\xff\xff\xff\xfa\x7f".b)
  end

  section("hpack/6.1") { expect wrong, "index 0", get_with("\x80".b) }

  section "hpack/6.3" do
    expect wrong, "a table larger than SETTINGS_HEADER_TABLE_SIZE",
           ->(client) { get_with("", before: hpack.table_size(client.settings.fetch(:header_table_size, 4096) + 1)) }
  end
end
