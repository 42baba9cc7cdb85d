# frozen_string_literal: true

# Gyre::Log::Journal: what it remembers, and how it stays small.

require "test_helper"
require "tmpdir"
require "gyre"
require "gyre/log/output/journal"

class LogJournalTest < Minitest::Test
  Journal = Gyre::Log::Journal
  ID = "0123456789abcdef0123456789abcdef"
  OTHER = "f" * 32
  DAY_S = 24 * 3600

  def setup
    @folder = Dir.mktmpdir
    @path = File.join(@folder, "a.log.journal")
    @said = []
    @journals = []
  end

  def teardown
    @journals.each(&:close)
    FileUtils.remove_entry(@folder)
  end

  # As after a restart.
  def open_journal
    @journals.each(&:close)
    retries = Gyre::Retry.new("a.log", report: @said.method(:push))
    Journal.new(@path, retries, Gyre::Log::Output::Lock.new("a.log", retries, 0)).tap { |journal| @journals << journal }
  end

  def batch(clients, time: 1000)
    Journal::Batch.new(time, 1, 2, 3, 4, 5, clients)
  end

  def test_it_is_empty_until_it_is_needed
    journal = open_journal
    refute_predicate journal, :used?
    assert_empty journal.stored
    assert_empty File.binread(@path)
    refute_predicate open_journal, :used?
  end

  # After a batch the numbers may be those of this log file alone: others may lack records below
  # them.
  def test_an_orderly_end_counts_until_the_next_batch
    journal = open_journal
    journal.append(batch({ ID => 3 }))
    journal.settle(true)
    assert_nil journal.concluded
    journal.conclude({ ID => [7, 900], OTHER => [2, 900] }, 1000)
    again = open_journal
    assert_equal [{ ID => [7, 900], OTHER => [2, 900] }] * 2, [again.concluded, again.clients]
    again.append(batch({ OTHER => 9 }))
    again.settle(true)
    assert_equal [nil, { ID => 7, OTHER => 9 }], [again.concluded, again.stored]
    last = open_journal
    assert_equal [7, 900], last.concluded[ID] # until it is known whether the batch counts
    last.settle(true)
    assert_nil last.concluded
  end

  def test_it_belongs_to_one_also_after_it_was_made_again
    open_journal.compact(0)
    error = assert_raises(ArgumentError) do
      Journal.new(@path, nil, Gyre::Log::Output::Lock.new("a.log", nil, 0))
    end
    assert_equal "another server writes to a.log", error.message
  end

  # In a folder that another user may write to.
  def test_links_that_are_planted_lead_nowhere
    other = File.join(@folder, "other")
    File.write(other, "untouched", perm: 0o644)
    journal = open_journal
    File.symlink(other, "#{@path}.new")
    journal.compact(0)
    assert_equal ["untouched", "file"], [File.read(other), File.ftype(@path)]
    journal.close
    File.delete(@path)
    File.symlink(other, @path)
    assert_raises(Errno::ELOOP) { open_journal }
    assert_equal ["untouched", 0o644], [File.read(other), File.stat(other).mode & 0o777]
  end

  def test_a_batch_counts_once_it_is_settled
    journal = open_journal
    journal.append(batch({ ID => 5 }))
    assert_empty journal.stored
    journal.settle(true)
    assert_equal({ ID => 5 }, journal.stored)
    journal.append(batch({ ID => 6 }))
    journal.settle(false)
    assert_equal({ ID => 5 }, journal.stored)
  end

  def test_read_again_the_last_batch_is_open_and_those_before_count
    journal = open_journal
    [5, 6, 7].each { |seq| journal.append(batch({ ID => seq })) && journal.settle(true) }
    again = open_journal
    assert_equal [{ ID => 6 }, batch({ ID => 7 }), 0], [again.stored, again.open_batch, again.torn_bytes]
    again.settle(true)
    assert_equal({ ID => 7 }, again.stored)
  end

  def test_a_lower_number_never_replaces_a_higher_one
    journal = open_journal
    [9, 4].each { |seq| journal.append(batch({ ID => seq })) && journal.settle(true) }
    assert_equal({ ID => 9 }, journal.stored)
  end

  def test_damage_is_reported_and_kept
    journal = open_journal
    journal.append(batch({ ID => 5 }))
    journal.close
    File.open(@path, "ab") { |file| file.write("\0\0\0\x04ABCDwhole, with a wrong checksum") }
    again = open_journal
    assert_equal [0, batch({ ID => 5 }), true], [again.torn_bytes, again.open_batch, again.used?]
    assert_equal "\0\0\0\x04ABCDwhole, with a wrong checksum", File.binread("#{@path}.damaged")
    assert_match(/are damaged; they are kept in #{@path}\.damaged/, @said.last)
  end

  def test_a_torn_end_is_reported
    journal = open_journal
    journal.append(batch({ ID => 5 }))
    File.open(@path, "ab") { |file| file.write("\0\0\0\x50torn") }
    assert_equal [8, batch({ ID => 5 })], [open_journal.torn_bytes, open_journal.open_batch]
  end

  def test_compaction_keeps_every_client_but_the_long_unseen
    journal = open_journal
    [[ID, 1, 0], [OTHER, 2, 29 * DAY_S]].each { |id, seq, time| journal.append(batch({ id => seq }, time: time)) && journal.settle(true) }
    journal.compact(29 * DAY_S)
    journal = open_journal
    assert_equal({ ID => 1, OTHER => 2 }, journal.stored)
    journal.compact(31 * DAY_S)
    journal = open_journal
    assert_equal({ OTHER => 2 }, journal.stored)
    assert_equal File.size(@path), journal.bytesize
    refute_path_exists "#{@path}.new"
    journal.append(batch({ ID => 3 }))
    assert_equal batch({ ID => 3 }), open_journal.open_batch
  end

  def test_with_an_open_batch_it_is_not_compacted
    journal = open_journal
    journal.append(batch({ ID => 5 }))
    assert_raises(Gyre::Error) { journal.compact(0) }
  end

  def test_it_reports_when_it_has_grown
    journal = open_journal
    clients = (1..1000).to_h { |number| [format("%032x", number), number] }
    refute journal.large?
    (journal.append(batch(clients)) && journal.settle(true)) until journal.large?
    assert_operator journal.bytesize, :>, Journal::COMPACT_BYTES
    journal.compact(0)
    refute journal.large?
    assert_equal clients, journal.stored
  end

  def test_a_file_that_was_killed_while_it_was_compacted_is_whole
    journal = open_journal
    journal.append(batch({ ID => 5 }))
    journal.settle(true)
    File.binwrite("#{@path}.new", "half a snap")
    again = open_journal
    again.settle(true)
    again.compact(0)
    assert_equal({ ID => 5 }, open_journal.stored)
  end
end
