# frozen_string_literal: true

# Gyre::Log::Recovery: every state in which a crash can leave a log file and its journal, and what a
# restart makes of it.

require "test_helper"
require "tmpdir"
require "gyre"
require "gyre/log/output/file_output"

class LogRecoveryTest < Minitest::Test
  Journal = Gyre::Log::Journal
  Entry = Journal::Entry
  IDS = %w[a b c].map { |digit| digit * 32 }.freeze

  def setup
    # Thousands of restarts: where a sync costs nothing, if there is such a place.
    @folder = Dir.mktmpdir(nil, ["/dev/shm"].find { |folder| File.writable?(folder) })
    @path = File.join(@folder, "a.log")
    @said = []
  end

  def teardown
    FileUtils.remove_entry(@folder)
  end

  # Two commits and what comes between them without one: each prefix of what was written, in the
  # order in which it was written.
  def test_at_whatever_byte_the_process_was_killed_nothing_is_lost_and_nothing_comes_twice
    6.times do |seed|
      plan = Plan.new(Random.new(seed), @path)
      plan.states.each { |state| check(plan, state, "seed #{seed}, #{state}") }
    end
  end

  # After a power failure what was not synced may be there, missing, or zeros.
  def test_at_whatever_byte_the_power_failed
    plan = Plan.new(Random.new(99), @path)
    plan.states.each do |state|
      [1, 40].each do |zeros|
        [true, false].each { |in_log| check(plan, state, "#{state}, #{zeros} zeros", in_log ? [zeros, 0] : [0, zeros]) }
      end
    end
  end

  # A run of the server: commits with acknowledged records, lines of others between them.
  class Plan
    Commit = Struct.new(:data, :clients, :entry)
    # journal, log: bytes; committed: how many commits are acknowledged; name: for messages
    State = Struct.new(:journal, :log, :committed, :name) do
      def to_s
        name
      end
    end
    attr_reader :commits

    def initialize(random, path)
      @random = random
      @path = path
      @next = Hash.new(0)
      @commits = Array.new(2) { make_commit }
    end

    def states
      File.binwrite(@path, "")
      stat = File.stat(@path)
      journal = "".b
      log = "before\n".b
      found = []
      commits.each_with_index do |commit, index|
        entry = Journal::Batch.new(Time.now.to_i, stat.dev, stat.ino, log.bytesize, commit.data.bytesize, Zlib.crc32(commit.data), commit.clients)
        bytes = Entry.encode(entry)
        bytes.bytesize.times { |cut| found << State.new(journal + bytes.byteslice(0, cut), log, index, "entry #{index} cut at #{cut}") }
        journal += bytes
        (commit.data.bytesize + 1).times do |cut|
          found << State.new(journal, log + commit.data.byteslice(0, cut), index, "batch #{index} cut at #{cut}")
        end
        log += commit.data
        found << State.new(journal, log, index + 1, "commit #{index} acknowledged")
        other = "other #{index}\n"
        (1..other.bytesize).each { |cut| found << State.new(journal, log + other.byteslice(0, cut), index + 1, "other cut at #{cut}") }
        log += other
      end
      found
    end

    private

    def make_commit
      clients = {}
      lines = Array.new(1 + @random.rand(4)) do
        id = IDS.sample(random: @random)
        clients[id] = @next[id] += 1
        "#{id}:#{clients[id]}:#{"x" * @random.rand(20)}\n"
      end
      Commit.new(lines.join, clients)
    end
  end

  def check(plan, state, name, zeros = [0, 0])
    File.binwrite(@path, pad(state, zeros[0], plan))
    File.binwrite("#{@path}.journal", state.journal + "\0" * zeros[1])
    output = Gyre::Log::Output::FileOutput.new(@path, report: @said.method(:push))
    stored = output.stored
    resend(plan, state, stored).each { |data, clients| output.write(data, clients) }
    output.close
    lines = File.binread(@path).lines
    expected = plan.commits.flat_map { |commit| commit.data.lines }.sort
    records = lines.grep(/\A[abc]{32}:\d+:x*\n\z/)
    assert_equal expected, records.sort, name
    assert_equal "before\n", lines.first, name
    assert_operator lines.count("other 0\n"), :<=, 1, name
    assert(lines.all? { |line| line.end_with?("\n") }, name)
  end

  # Zeros in place of what was not synced: only the batch that was under way may have any.
  def pad(state, zeros, plan)
    batch = state.name[/\Abatch (\d) cut at (\d+)/] && plan.commits[Regexp.last_match(1).to_i]
    return state.log unless batch && zeros.positive?

    state.log + "\0" * [zeros, batch.data.bytesize - Regexp.last_match(2).to_i].min
  end

  # What the clients send again: all that was not acknowledged. What is stored the server leaves
  # out.
  def resend(plan, state, stored)
    plan.commits.drop(state.committed).filter_map do |commit|
      lines = commit.data.lines.reject { |line| line.split(":")[1].to_i <= stored.fetch(line[0, 32], 0) }
      next if lines.empty?

      [lines.join, lines.to_h { |line| [line[0, 32], line.split(":")[1].to_i] }]
    end
  end

  def test_a_torn_line_without_a_journal_gets_its_newline
    File.binwrite(@path, "whole\nto")
    open_output.close
    assert_equal "whole\nto\n", File.binread(@path)
    assert_empty File.binread("#{@path}.journal")
    open_output.close
    assert_equal "whole\nto\n", File.binread(@path)
  end

  def test_a_batch_is_found_in_the_file_that_logrotate_renamed
    commit_and_leave_open
    File.rename(@path, "#{@path}.1")
    assert_equal({ IDS[0] => 2 }, reopened_stored)

    File.truncate("#{@path}.1", File.size("#{@path}.1") - 1)
    write_journal("#{@path}.1")
    assert_empty reopened_stored
    assert_equal "", File.binread("#{@path}.1")
  end

  def test_a_batch_is_found_in_a_copy_of_the_file
    commit_and_leave_open
    FileUtils.cp(@path, "#{@path}.copy")
    File.rename("#{@path}.copy", @path)
    assert_equal({ IDS[0] => 2 }, reopened_stored)
  end

  def test_a_file_that_is_gone_does_not_count
    commit_and_leave_open
    File.unlink(@path)
    assert_empty reopened_stored
    assert_match(/the file of the last commit is gone/, @said.last)
  end

  def test_a_file_that_others_changed_is_left_alone
    commit_and_leave_open
    File.binwrite(@path, "something else entirely, longer than it was\n")
    write_journal(@path)
    assert_empty reopened_stored
    assert_equal "something else entirely, longer than it was\n", File.binread(@path)
    assert_match(/is changed/, @said.last)
  end

  private

  DATA = "one\ntwo\n"

  def open_output
    Gyre::Log::Output::FileOutput.new(@path, report: @said.method(:push))
  end

  # As kill -9 leaves it: the last entry is a batch.
  def commit_and_leave_open
    File.binwrite(@path, DATA)
    write_journal(@path)
  end

  def write_journal(file)
    stat = File.stat(file)
    batch = Journal::Batch.new(Time.now.to_i, stat.dev, stat.ino, 0, DATA.bytesize, Zlib.crc32(DATA), { IDS[0] => 2 })
    File.binwrite("#{@path}.journal", Entry.encode(batch))
  end

  def reopened_stored
    output = open_output
    output.stored
  ensure
    output&.close
  end
end
