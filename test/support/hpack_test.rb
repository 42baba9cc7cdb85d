# frozen_string_literal: true

require "test_helper"
require "support/hpack"

# The decoder of the tests' HTTP/2 client, by the examples of RFC 7541, Appendix C.
class HPACKTest < Minitest::Test
  HPACK = GyreTest::HPACK

  def test_numbers
    assert_equal ["0a", "1f9a0a", "2a"], [[10, 5], [1337, 5], [42, 8]].map { |value, bits| HPACK.integer(value, bits).unpack1("H*") }
  end

  # C.3 and C.4: the table grows, plain and in Huffman's code.
  def test_requests_that_share_a_table
    common = [%w[:method GET], %w[:scheme http], %w[:path /], %w[:authority www.example.com]]
    last = [%w[:method GET], %w[:scheme https], %w[:path /index.html], %w[:authority www.example.com], %w[custom-key custom-value]]
    expected = [common, [*common, %w[cache-control no-cache]], last]
    plain = %w[828684410f7777772e6578616d706c652e636f6d 828684be58086e6f2d6361636865
               828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565]
    coded = %w[828684418cf1e3c2e5f23a6ba0ab90f4ff 828684be5886a8eb10649cbf 828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf]
    [plain, coded].each do |blocks|
      decoder = HPACK::Decoder.new
      assert_equal expected, (blocks.map { |block| decoder.decode([block].pack("H*")) })
    end
  end

  # C.6: fields leave a table of 256 bytes.
  def test_responses_with_a_small_table
    decoder = HPACK::Decoder.new(256)
    blocks = %w[488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97c8e9ae82ae43d3
                4883640effc1c0bf]
    fields = blocks.map { |block| decoder.decode([block].pack("H*")) }
    assert_equal [[":status", "302"], ["cache-control", "private"], ["date", "Mon, 21 Oct 2013 20:13:21 GMT"],
                  ["location", "https://www.example.com"]], fields[0]
    assert_equal [[":status", "307"], *fields[0].drop(1)], fields[1]
  end

  def test_what_the_encoder_writes_is_decoded
    fields = [["a", "b" * 300], ["c" * 127, ""], %w[d \xff]]
    assert_equal fields.map { |field| field.map(&:b) }, HPACK::Decoder.new.decode(HPACK.encode(fields))
  end

  def test_bad_blocks
    bad = { "40" => /cut/, "80" => /index 0/, "c6" => /index 70/, "8221" => /behind/, "3fe21f" => /larger/, "ff8080808080808001" => /large/,
            "0005f2" => /cut/, "0085f2b24a84ff8449509fff" => /padding/, "0085f2b24a84ff83495090" => /padding/,
            "0085f2b24a84ff874951fffffffa7f" => /EOS/ }
    bad.each { |block, error| assert_match error, assert_raises(HPACK::Error) { HPACK::Decoder.new.decode([block].pack("H*")) }.message }
  end
end
