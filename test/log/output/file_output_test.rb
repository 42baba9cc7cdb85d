# frozen_string_literal: true

# Gyre::Log::Output::FileOutput: commits, full disks, syncs that fail, files that others move, cut
# or lock.

require "test_helper"
require "tmpdir"
require "gyre"
require "gyre/log/output/file_output"

class LogOutputFileTest < Minitest::Test
  ID = "0123456789abcdef0123456789abcdef"

  def setup
    @folder = Dir.mktmpdir
    @path = File.join(@folder, "a.log")
    @said = []
    @outputs = []
  end

  def teardown
    @outputs.each(&:close)
    FileUtils.remove_entry(@folder)
  end

  def open_output(**options)
    Gyre::Log::Output::FileOutput.new(@path, report: @said.method(:push), longest_pause_s: 0.01, **options).tap { |output| @outputs << output }
  end

  def store(output, lines, number)
    output.write(lines, { ID => number })
    output.sync
  end

  # One that has stored this.
  def output_with(lines, number)
    open_output.tap { |output| store(output, lines, number) }
  end

  def before_recovery(action)
    recovery = Gyre::Log::Recovery
    run = recovery.method(:run)
    replaced = lambda do |*arguments|
      action.call
      run.call(*arguments)
    end
    replace_run(recovery, replaced)
    yield
  ensure
    replace_run(recovery, run)
  end

  def replace_run(recovery, body)
    verbose, $VERBOSE = $VERBOSE, nil
    recovery.define_singleton_method(:run, &body)
  ensure
    $VERBOSE = verbose
  end

  def content
    File.binread(@path)
  end

  def test_lines_are_appended
    File.write(@path, "before\n")
    output = open_output
    output.write("one\n")
    output.write("two\n", {})
    output.sync
    assert_equal "before\none\ntwo\n", content
    assert_empty File.binread("#{@path}.journal")
    assert_empty output.stored
  end

  def test_what_a_commit_stored_is_known_after_a_restart
    output = open_output
    output.write("one\n", { ID => 7 })
    assert_empty output.stored
    output.sync
    assert_equal({ ID => 7 }, output.stored)
    output.close
    assert_equal({ ID => 7 }, open_output.stored)
  end

  def test_a_commit_after_an_unsynced_one_syncs_it_first
    output = open_output
    output.write("one\n", { ID => 7 })
    output.write("two\n", { ID => 8 })
    assert_equal({ ID => 7 }, output.stored)
  end

  def test_a_large_batch_goes_in_pieces_and_others_run_meanwhile
    data = "#{"x" * 99}\n" * (Gyre::Log::Output::Writing::PIECE_BYTES * 5 / 100)
    turns = 0
    Gyre.run do |task|
      ticking = task.async do
        loop do
          turns += 1
          sleep 0
        end
      end
      open_output.write(data)
      ticking.stop
    end
    assert_equal data, content
    assert_operator turns, :>, 1, "no other task had a turn"
  end

  def test_the_loop_goes_on_while_a_sync_takes_long
    output = open_output
    turns = 0
    syncing = nil
    slow(output) do
      syncing = Thread.current
      eventually(what: "turns of the loop") { turns > 5 }
    end
    Gyre.run do |task|
      output.write("one\n")
      ticking = task.async do
        loop do
          turns += 1
          sleep 0.001
        end
      end
      output.sync
      ticking.stop
    end
    refute_same Thread.current, syncing
  end

  # RLIMIT_FSIZE stands for a full disk everywhere: write(2) is short, then fails.
  def test_a_full_disk_is_waited_for_and_reported_once
    code = <<~RUBY
      require "gyre"
      require "gyre/log/output/file_output"
      trap("XFSZ", "IGNORE")
      said = []
      _, hard = Process.getrlimit(:FSIZE)
      Process.setrlimit(:FSIZE, 1000, hard)
      output = Gyre::Log::Output::FileOutput.new(ARGV[0], report: said.method(:push), longest_pause_s: 0.01)
      lines = Array.new(200) { |index| "line \#{index}\\n" }
      Gyre.run do |task|
        task.async do
          sleep 0.01 until said.any? && File.size(ARGV[0]) == 1000
          STDOUT.write(output.trouble, "\\n")
          Process.setrlimit(:FSIZE, hard, hard)
        end
        output.write(lines.join)
        output.sync
      end
      STDOUT.write(output.trouble.inspect, "\\n", said.join("\\n"), "\\n", File.read(ARGV[0]) == lines.join)
    RUBY
    out = ruby("-e", code, @path)
    trouble, after, first, second, whole = out.out.lines(chomp: true)
    assert_equal "", out.err
    assert_match(/\Adisk full, cannot write: File too large\z/, trouble)
    assert_equal ["nil", "true"], [after, whole]
    assert_match(/a\.log: disk full, cannot write: File too large; nothing is dropped/, first)
    assert_match(/a\.log: there is room again after/, second)
    assert_equal 5, out.out.lines.size
  end

  # The log is removed or renamed, and HUP sent: only that makes room.
  def test_a_full_disk_and_a_file_that_is_reopened
    [true, false].each do |acknowledged|
      code = <<~RUBY
        require "gyre"
        require "gyre/log/output/file_output"
        trap("XFSZ", "IGNORE")
        path, acknowledged = ARGV
        said = []
        _, hard = Process.getrlimit(:FSIZE)
        Process.setrlimit(:FSIZE, 1000, hard)
        output = Gyre::Log::Output::FileOutput.new(path, report: said.method(:push), longest_pause_s: 0.01)
        Gyre.run do |task|
          task.async do
            sleep 0.001 until output.trouble
            File.rename(path, path + ".1")
            output.reopen_soon
          end
          %w[a b c].each.with_index(1) { |name, seq| output.write("\#{name * 399}\n", acknowledged == "true" ? { "0" * 32 => seq } : {}) }
          output.sync
        end
        Process.setrlimit(:FSIZE, hard, hard)
        STDOUT.sync = true
        STDOUT.write(said.size, " ", output.stored.values.inspect)
        Process.kill(:KILL, Process.pid)
      RUBY
      out = ruby("-e", code, @path, acknowledged.to_s)
      assert_equal ["", "2 #{acknowledged ? [3] : []}"], [out.err, out.out]
      assert_equal ["#{"a" * 399}\n#{"b" * 399}\n", "#{"c" * 399}\n"], ["#{@path}.1", @path].map { |path| File.read(path) }
      assert_equal acknowledged ? [3] : [], open_output.tap(&:close).stored.values
      FileUtils.rm(Dir["#{@path}*"])
    end
  end

  def test_a_disk_that_is_full_in_the_middle_of_a_commit
    folder = File.join(@folder, "small")
    Dir.mkdir(folder)
    unless Process.uid.zero? && system("mount", "-t", "tmpfs", "-o", "size=64k", "none", folder, err: File::NULL)
      skip "a small tmpfs cannot be mounted here"
    end

    begin
      @path = File.join(folder, "a.log")
      filler = File.join(folder, "filler")
      output = open_output
      output.write("first\n", { ID => 1 })
      output.sync
      File.binwrite(filler, "f" * 44 * 1024)
      data = "#{"x" * 999}\n" * 30
      Gyre.run do |task|
        task.async do
          sleep 0.002 until output.trouble
          assert_match(/disk full.*No space left/, output.trouble)
          sleep 0.002 while @said.empty?
          File.unlink(filler)
        end
        output.write(data, { ID => 2 })
        output.sync
      end
      assert_equal "first\n#{data}", content
      assert_equal({ ID => 2 }, output.stored)
      assert_equal 2, @said.size, @said.inspect
      output.close
    ensure
      system("umount", folder)
    end
  end

  def test_a_sync_that_fails_writes_the_commit_once_more
    output = open_output
    output.write("before\n")
    output.write("one\n", { ID => 1 })
    failures = 2
    slow(output) { raise Errno::EIO if (failures -= 1) >= 0 }
    output.sync
    assert_equal "before\none\n", content
    assert_equal({ ID => 1 }, output.stored)
    assert_match(/cannot sync: Input\/output error/, @said.first)
    assert_match(/it works again/, @said.last)
    output.close
    assert_equal({ ID => 1 }, open_output.stored)
  end

  def test_a_batch_is_written_once_more_even_if_that_fails_at_first
    output = open_output
    output.write("one\n", { ID => 1 })
    failures = [Errno::EIO]
    slow(output) { raise failures.shift if failures.any? }
    cuts = [Errno::EIO, nil]
    file(output).define_singleton_method(:truncate) { |size| (error = cuts.shift) ? raise(error) : super(size) }
    output.sync
    assert_empty cuts, "it was not written again"
    assert_equal({ ID => 1 }, output.stored)
    store(output, "two\n", 2)
    assert_equal "one\ntwo\n", content
  end

  def test_an_error_of_the_device_is_reported_and_tried_again
    output = open_output
    failures = [Errno::EIO, Errno::EIO, Errno::EROFS, Errno::EINTR]
    file(output).define_singleton_method(:write_nonblock) do |bytes, *rest|
      failures.any? ? raise(failures.shift) : super(bytes.byteslice(0, 2), *rest)
    end
    output.write("one\n")
    assert_equal "one\n", content
    assert_equal 3, @said.size
    assert_match(/cannot write: Read-only file system; nothing is dropped/, @said[1])
  end

  def test_reopen_follows_the_name_after_logrotate
    output = open_output
    output.write("one\n", { ID => 1 })
    File.rename(@path, "#{@path}.1")
    output.write("two\n", { ID => 2 })
    output.reopen
    store(output, "three\n", 3)
    assert_equal "one\ntwo\n", File.binread("#{@path}.1")
    assert_equal "three\n", content
    output.close
    assert_equal({ ID => 3 }, open_output.stored)
  end

  # logrotate has renamed the file and made the new one, and compresses the old one in a moment: HUP
  # may come too late.
  def test_a_file_that_has_the_name_now_gets_the_next_lines_also_without_hup
    output = open_output
    store(output, "one\n", 1)
    File.rename(@path, "#{@path}.1")
    store(output, "two\n", 2) # nothing has the name: HUP is waited for
    File.write(@path, "", perm: 0o640)
    store(output, "three\n", 3)
    assert_equal ["one\ntwo\n", "three\n"], [File.binread("#{@path}.1"), content]
    File.unlink("#{@path}.1")
    File.rename(@path, "#{@path}.1")
    File.write(@path, "")
    File.unlink("#{@path}.1")
    output.write("four\n")
    assert_equal "four\n", content
    assert_empty @said
    output.close
    assert_equal({ ID => 3 }, open_output.stored)
  end

  # Between the look at the name and the end of the write; then the old file is compressed.
  def test_a_batch_during_which_the_file_was_replaced_is_in_the_new_one
    [-> { File.write(@path, "") }, ->(output) { output.reopen_soon }].product([{}, { ID => 2 }]) do |replace, clients|
      output = open_output
      store(output, "one\n", 1)
      during_the_next_write(output) { File.rename(@path, "#{@path}.1") && replace.call(*[output].first(replace.arity)) }
      output.write("two\n", clients)
      output.sync
      assert_equal ["one\n", "two\n"], [File.binread("#{@path}.1"), content]
      assert_equal({ ID => clients.fetch(ID, 1) }, output.stored)
      output.close
      [@path, "#{@path}.1", "#{@path}.journal"].each { |path| File.unlink(path) }
    end
    assert_empty @said
  end

  def test_a_file_whose_successor_cannot_be_opened_is_written_on
    output = open_output
    during_the_next_write(output) { File.rename(@path, "#{@path}.1") && Dir.mkdir(@path) }
    output.write("one\n")
    output.write("two\n")
    assert_equal "one\ntwo\n", File.binread("#{@path}.1")
    assert_match(/the old file is kept/, @said.last)
    Dir.rmdir(@path)
  end

  def test_a_new_file_is_like_the_one_before_and_the_journal_is_private
    File.write(@path, "")
    File.chmod(0o620, @path)
    output = open_output
    store(output, "one\n", 1)
    assert_equal 0o600, File.stat("#{@path}.journal").mode & 0o777
    File.rename(@path, "#{@path}.1")
    output.reopen
    store(output, "two\n", 2)
    assert_equal [0o620, 0o600], [@path, "#{@path}.journal"].map { |path| File.stat(path).mode & 0o777 }
  end

  def test_reopen_without_a_change_and_after_the_file_was_removed
    output = open_output
    output.write("one\n", { ID => 1 })
    output.reopen
    output.write("two\n")
    assert_equal "one\ntwo\n", content
    File.unlink(@path, "#{@path}.journal")
    output.reopen
    output.write("three\n")
    assert_equal "three\n", content
    output.close
    assert_equal({ ID => 1 }, open_output.stored)
    assert_empty @said
  end

  def test_what_cannot_be_opened_again_is_kept
    output = open_output
    output.write("one\n")
    File.rename(@path, "#{@path}.1")
    Dir.mkdir(@path)
    output.reopen
    output.write("two\n")
    assert_equal "one\ntwo\n", File.binread("#{@path}.1")
    assert_match(/cannot be opened again, the old file is kept/, @said.first)
    Dir.rmdir(@path)
  end

  def test_a_file_that_copytruncate_cut
    output = open_output
    output.write("#{"x" * 100}\n", { ID => 1 })
    output.sync
    File.truncate(@path, 0)
    store(output, "one\n", 2)
    assert_equal "one\n", content
    File.truncate(@path, 0)
    # Without acknowledged records; were the process killed now, the journal must not speak of the
    # bytes that are gone.
    output.write("#{"y" * 200}\n")
    FileUtils.cp("#{@path}.journal", "#{@path}.kept")
    output.close
    File.rename("#{@path}.kept", "#{@path}.journal")
    again = open_output
    assert_equal "#{"y" * 200}\n", content
    assert_equal({ ID => 2 }, again.stored)
  end

  def test_a_file_that_is_cut_in_the_middle_of_a_commit
    output = open_output
    output.write("before\n")
    journal = output.instance_variable_get(:@journal)
    path = @path
    journal.define_singleton_method(:append) do |batch|
      super(batch)
      File.truncate(path, 0)
    end
    store(output, "one\n", 1)
    FileUtils.cp("#{@path}.journal", "#{@path}.kept")
    output.close
    File.rename("#{@path}.kept", "#{@path}.journal")
    assert_equal({ ID => 1 }, open_output.stored)
    assert_equal "one\n", content
  end

  def test_a_file_that_was_deleted_is_made_again
    output = output_with("one\n", 1)
    File.unlink(@path)
    store(output, "two\n", 2)
    assert_equal "two\n", content
    assert_equal ["#{@path}: was deleted, and is created again"], @said
    output.close
    assert_equal({ ID => 2 }, open_output.stored)
  end

  def test_a_journal_that_was_deleted_is_made_again
    output = output_with("one\n", 1)
    File.unlink("#{@path}.journal")
    output.write("two\n", { "f" * 32 => 2 })
    output.sync
    output.close
    assert_equal({ ID => 1, "f" * 32 => 2 }, open_output.stored)
  end

  # Between the two renames that follow a failed sync of the folder.
  def test_a_file_whose_name_a_kill_has_left_away_gets_it_back
    output_with("one\n", 1).close
    File.rename(@path, "#{@path}.renamed")
    store(open_output, "two\n", 2)
    assert_equal ["one\ntwo\n", ["a.log", "a.log.journal"]], [content, Dir.children(@folder).sort]
    File.write("#{@path}.renamed", "another program's")
    @outputs.pop.close
    open_output
    assert_equal ["one\ntwo\n", "another program's"], [content, File.read("#{@path}.renamed")]
  end

  def test_a_file_that_is_renamed_while_it_is_opened
    output = output_with("one\n", 1)
    output.close
    path, moved = @path, "#{@path}.moved"
    before_recovery(-> { File.rename(path, moved) unless File.exist?(moved) }) { output = open_output }
    store(output, "two\n", 2)
    assert_equal ["one\n", "two\n"], [File.binread(moved), content]
    assert_equal({ ID => 2 }, output.stored)
  end

  def test_a_second_server_does_not_write_to_the_same_file
    open_output
    error = assert_raises(ArgumentError) { open_output(lock_patience_s: 0.01) }
    assert_match(/another server writes to/, error.message)
  end

  def test_the_next_server_waits_until_the_last_one_has_let_go
    first = open_output
    second = nil
    Gyre.run do |task|
      task.async do
        sleep 0.02
        first.write("one\n", { ID => 1 })
        first.close
      end
      second = open_output
    end
    assert_equal({ ID => 1 }, second.stored)
  end

  def test_a_commit_that_was_interrupted_is_taken_back_by_the_next_start
    output = output_with("first\n", 1)
    file(output).define_singleton_method(:write_nonblock) { |bytes, *rest| bytes.size > 2 ? super(bytes.byteslice(0, 2), *rest) : raise(Gyre::Stop) }
    assert_raises(Gyre::Stop) { output.write("one\n", { ID => 2 }) }
    assert_raises(IOError) { output.write("two\n") }
    output.close
    assert_equal "first\non", content
    assert_equal({ ID => 1 }, open_output.stored)
    assert_equal "first\n", content
  end

  # Recovery waits for the disk; meanwhile other tasks ask.
  def test_clients_are_unknown_until_an_opening_has_recovered_the_file
    output_with("first\n", 7).close
    asked = []
    opening = Class.new(Gyre::Log::Output::FileOutput) do
      define_method(:recover) do
        stored_by(ID)
      rescue Gyre::Log::Output::Unavailable => error
        raise Errno::ENOSPC if asked.push(error.class).size == 1

        super()
      end
    end
    output = opening.new(@path).tap { |one| @outputs << one }
    output.prepare
    assert_equal [Gyre::Log::Output::Unavailable] * 2, asked
    assert_equal 7, output.stored_by(ID)
  end

  private

  # Once, behind the bytes of a write.
  def during_the_next_write(output)
    io = output.instance_variable_get(:@file).instance_variable_get(:@io)
    io.define_singleton_method(:write_nonblock) do |bytes|
      singleton_class.remove_method(:write_nonblock)
      super(bytes).tap { yield }
    end
  end

  def file(output)
    output.instance_variable_get(:@file).instance_variable_get(:@io)
  end

  # The block runs in place of the wait for the disk, in the thread that waits.
  def slow(output, &block)
    file(output).define_singleton_method(:fsync) do
      block.call
      super()
    end
  end
end
