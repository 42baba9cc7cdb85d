# frozen_string_literal: true

# Gyre::Log::Journal::Entry: the bytes of a journal.

require "test_helper"
require "gyre/log/output/journal/entry"

class LogJournalEntryTest < Minitest::Test
  Journal = Gyre::Log::Journal
  Entry = Journal::Entry
  IDS = %w[00000000000000000000000000000001 ffeeddccbbaa99887766554433221100].freeze

  def batch(clients = { IDS[0] => 1, IDS[1] => (1 << 64) - 1 })
    Journal::Batch.new(1_700_000_000, 5, 1 << 40, 1 << 50, 12, 0xdeadbeef, clients)
  end

  def entries(bytes)
    found = []
    [found, Entry.each(bytes) { |entry| found << entry }]
  end

  def test_what_is_written_is_read
    snapshot = { IDS[0] => [3, 4], IDS[1] => [5, 6] }
    bytes = Entry.encode(batch) + Entry.encode_snapshot(snapshot) + Entry.encode(batch({}))
    assert_equal [[batch, Journal::Snapshot.new(snapshot), batch({})], bytes.bytesize], entries(bytes)
    assert_equal "", Entry.encode_snapshot({})
  end

  def test_the_bytes_are_those_of_the_drawing
    bytes = Entry.encode(batch({ IDS[0] => 7 }))
    text = "[1700000000,5,#{1 << 40},#{1 << 50},12,3735928559,{\"#{IDS[0]}\":7}]"
    assert_equal [[text.bytesize, Zlib.crc32(text)].pack("L>L>"), text].join, bytes
    assert_equal Encoding::BINARY, bytes.encoding
  end

  def test_a_text_that_is_no_json_ends_it
    whole = Entry.encode(batch)
    other = [3, Zlib.crc32("\x01\x02\x03")].pack("L>L>") + "\x01\x02\x03"
    assert_equal [[batch], whole.bytesize], entries(whole + other)
  end

  def test_a_torn_end_is_left_out
    whole = Entry.encode(batch)
    (1...whole.bytesize).each do |length|
      assert_equal [[batch], whole.bytesize], entries(whole + whole.byteslice(0, length)), "cut at #{length}"
    end
  end

  def test_a_damaged_byte_ends_it
    whole = Entry.encode(batch)
    whole.bytesize.times do |at|
      damaged = whole.dup
      damaged.setbyte(at, damaged.getbyte(at) ^ 0x40)
      assert_equal [[batch], whole.bytesize], entries(whole + damaged + whole), "byte #{at}"
    end
    assert_equal [[], 0], entries("\0".b * 100)
    assert_equal [[], 0], entries("\xff".b * 100)
  end

  def test_many_clients_make_several_entries
    clients = (1..Entry::SNAPSHOT_CLIENTS + 1).to_h { |number| [format("%032x", number), [number, 1]] }
    found, = entries(Entry.encode_snapshot(clients))
    assert_equal 2, found.size
    assert_equal clients, found.map(&:clients).reduce(:merge)
  end
end
