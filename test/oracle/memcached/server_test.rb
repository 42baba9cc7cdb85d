# frozen_string_literal: true

# The oracle's memcached against Debian's: the same random commands, the same replies. Then each
# reply through the oracle's parser.

require "test_helper"
require "support/memcached_server"
require "oracle/memcached/server"
require "oracle/memcached/replies"

class MemcachedOracleTest < Minitest::Test
  include GyreTest::MemcachedServers

  KEYS = %w[a b c counter empty].freeze

  def test_a_thousand_random_commands_have_the_same_replies_as_from_memcached
    random = Random.new(13)
    oracle = MemcachedOracle::Server.new
    socket = TCPSocket.new("127.0.0.1", memcached.port)
    1000.times do
      text = command(random).b
      expected = oracle.reply(parsed(text))
      socket.write(text, "mn\r\n")
      replies = read_until_fence(socket)
      assert_equal expected, replies, text
      assert_equal :whole, MemcachedOracle::Replies.all(replies).last, replies
    end
  ensure
    socket&.close
  end

  def test_a_reply_needs_all_its_bytes
    ["HD\r\n", "VA 3 f0 Oa\r\na\r\n\r\n", "VA 0\r\n\r\n", "CLIENT_ERROR bad\r\n", "STAT a b\r\n", "EN\r\n"].each do |bytes|
      reply = first(bytes)
      assert_equal bytes.bytesize, reply.bytesize
      assert_equal reply, first("#{bytes}VA")
      bytes.bytesize.times { |length| assert_nil first(bytes.byteslice(0, length)) }
    end
  end

  def test_an_invalid_reply_is_wrong
    ["\r\nHD", "\n\n\n\n", "HD \n", "XX\r\n", "VA\r\n", "VA x\r\n", "VA -1\r\n", "VA 1\r\nab\r\n", "VA 1\r\naHD\r\n", "VA 99999999999\r\n",
     "H\0D\r\n", "HD f\r\n", "HD c-1\r\n", "EN h2\r\n", "a" * 8192].each do |bytes|
      assert_equal :wrong, first(bytes), bytes
    end
  end

  private

  def first(bytes) = MemcachedOracle::Replies.first(bytes.b)

  def parsed(text)
    found = MemcachedOracle::Commands.first(text)
    assert_kind_of MemcachedOracle::Command, found, text
    assert_equal text.bytesize, found.bytesize
    found
  end

  def command(random)
    key = KEYS.sample(random: random)
    pick = ->(*choices) { choices.sample(random: random) }
    case random.rand(8)
    when 0, 1 then "mg #{key} #{pick["v f", "v", "k s", "O12 v q", "v N30 O1", "s v k", "f"]}\r\n"
    when 2, 3 then set(key, random, pick)
    when 4 then "md #{key}#{pick["", " q", " O3 k", " k"]}\r\n"
    when 5 then "ms #{key} 1 T0\r\n7\r\n"
    when 6 then "ma #{key} #{pick["v", "D5 v", "N0 J13 v", "MD v", "MD D100 v", "N0 J2 v O7"]}\r\n"
    else "md counter\r\n"
    end
  end

  def set(key, random, pick)
    data = pick["", "1", "999", "18446744073709551615", random.bytes(20), "text\r\nHD\r\n"]
    "ms #{key} #{data.bytesize} #{pick["T0", "ME", "MR", "MA", "MP", "F5", "F7 k O9", "q", "MS"]}\r\n".b << data.b << "\r\n"
  end

  def read_until_fence(socket)
    bytes = "".b
    bytes << socket.readpartial(65_536) until bytes.end_with?("MN\r\n")
    bytes.delete_suffix("MN\r\n")
  end
end
