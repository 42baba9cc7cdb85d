# frozen_string_literal: true

# Output::FileOutput and Spill on a disk whose writes fail: what counts as stored is on the
# disk, as a power failure at that moment shows, and once the disk works again each line is there
# once.

require "test_helper"
require "json"
require "tmpdir"
require "support/failing_disk"

class LogOutputFailingDiskTest < Minitest::Test
  ID = "0123456789abcdef0123456789abcdef"

  PROLOGUE = <<~'RUBY'
    require "gyre"
    require "gyre/log/output/file_output"
    require "gyre/log/output/spill"
    require "json"
    require "support/failing_disk"
    ID = "0123456789abcdef0123456789abcdef"
    DISK = GyreTest::FailingDisk.new(ARGV[0])
    SAID = Thread::Queue.new
    def output
      Gyre::Log::Output::FileOutput.new(File.join(DISK.folder, "log"), report: SAID.method(:push), longest_pause_s: 0.01)
    end

    def open_spill
      Gyre::Log::Output::Spill.new(File.join(DISK.folder, "spill"), format: :text, limit: 1 << 30, report: SAID.method(:push), longest_pause_s: 0.01)
    end

    # The disk fails, and the child is killed when it has reported that.
    def killed_after_a_failed_sync
      reader, writer = IO.pipe
      start, starter = IO.pipe
      child = fork do
        store = yield
        writer.write("open")
        start.read(1)
        Thread.new do
          await("cannot sync")
          writer.write("x")
        end
        store.call
      end
      reader.read(4)
      DISK.break
      starter.write("x")
      reader.read(1)
      Process.kill(:KILL, child)
      Process.wait(child)
    end

    def lines(batch)
      (1..2000).map { |number| "batch #{batch} line #{number} #{"x" * 80}\n" }.join
    end

    def on_disk(name = "log")
      DISK.read_after_a_power_failure(name)
    end

    def await(words)
      loop { break if SAID.pop.include?(words) }
    end
  RUBY

  # A sync fails once, and would succeed next: the kernel has taken the pages for written.
  def test_what_counts_as_stored_is_on_a_disk_that_failed
    result = on_a_failing_disk(<<~'RUBY')
      log = output
      log.write("before\n", { ID => 1 })
      log.sync
      DISK.break
      log.write("plain\n" * 3000)
      writing = Thread.new do
        (2..4).each do |number|
          log.write(lines(number), { ID => number })
          log.sync
        end
      end
      await("cannot sync")
      pictures = Array.new(4) do
        stored = log.stored_by(ID)
        sleep 0.05
        [stored, on_disk.scan(/^batch (\d) line 2000 x{80}$/).flatten.map(&:to_i).max || 1]
      end
      DISK.mend
      writing.join
      text = on_disk
      log.close
      puts JSON.generate(pictures: pictures, whole: text == "before\n" + ("plain\n" * 3000) + (2..4).map { |number| lines(number) }.join,
                         stored: log.stored_by(ID))
    RUBY
    result["pictures"].each { |stored, there| assert_operator there, :>=, stored, "acknowledged, and not on the disk" }
    assert_equal [true, 4], result.values_at("whole", "stored")
  end

  def test_a_journals_entry_is_on_the_disk_before_its_batch_is_written
    result = on_a_failing_disk(<<~'RUBY')
      log = output
      log.write("before\n", { ID => 1 })
      log.sync
      clients = Array.new(20_000) { |number| format("%032x", number) }
      DISK.break
      writing = Thread.new do
        log.write("one\n", clients.to_h { |id| [id, 7] })
        log.sync
      end
      await("cannot sync")
      early = log.stored_by(clients.last)
      DISK.mend
      writing.join
      journal = on_disk("log.journal")
      found = {}
      Gyre::Log::Journal::Entry.each(journal) { |entry| found.merge!(entry.clients) }
      log.close
      puts JSON.generate(early: early, entered: clients.count { |id| found[id] == 7 }, text: on_disk)
    RUBY
    assert_equal [0, 20_000, "before\none\n"], result.values_at("early", "entered", "text")
  end

  # Its pages stay in the cache, whole and taken for written.
  def test_a_server_that_was_killed_after_a_failed_sync_leaves_nothing_that_counts_for_its_successor
    result = on_a_failing_disk(<<~'RUBY')
      log = output
      log.write("before\n", { ID => 1 })
      log.sync
      log.close
      killed_after_a_failed_sync do
        log = output
        lambda do
          log.write(lines(2), { ID => 2 })
          log.sync
        end
      end
      cached = File.size(File.join(DISK.folder, "log"))
      DISK.mend
      log = output
      stored = log.stored_by(ID)
      text = on_disk
      log.close
      puts JSON.generate(stored: stored, there: text.include?(lines(2)) ? 2 : 1, cached: cached)
    RUBY
    assert_operator result["there"], :>=, result["stored"], "stored, it says, and not on the disk"
  end

  def test_a_spill_after_such_a_kill_counts_only_batches_on_the_disk
    result = on_a_failing_disk(<<~'RUBY')
      spill = open_spill
      spill.append("before\n", { ID => 1 }) { false }
      spill.sync
      spill.close
      killed_after_a_failed_sync do
        spill = open_spill
        lambda do
          spill.append(lines(2), { ID => 2 }) { false }
          spill.sync
        end
      end
      DISK.mend
      spill = open_spill
      stored = spill.stored_by(ID)
      there = DISK.after_a_power_failure { |folder| Dir.glob("#{folder}/spill/*.records").map { |path| File.binread(path) }.join }
      lines, = spill.first
      puts JSON.generate(stored: stored, there: there.include?(lines(2)) ? 2 : 1, first: lines)
    RUBY
    assert_operator result["there"], :>=, result["stored"], "stored, it says, and not on the disk"
    assert_operator result["first"], :start_with?, "before\n"
  end

  private

  def on_a_failing_disk(code)
    reason = GyreTest::FailingDisk.missing and skip reason
    Dir.mktmpdir do |folder|
      result = run_program(*GyreTest::FailingDisk.around(*ruby_command("-I#{ROOT}/test", "-e", PROLOGUE + code, folder)), within_s: 60)
      assert_equal ["", true], [result.err, result.status.success?]
      JSON.parse(result.out)
    end
  end
end
