# frozen_string_literal: true

# Gyre::Log::Output::Lock: two servers and one log file, as processes of their own, also while
# others rename the file.

require "test_helper"
require "io/wait"
require "tmpdir"
require "gyre"
require "gyre/log/output/file_output"

class LogOutputLockTest < Minitest::Test
  ID = "0123456789abcdef0123456789abcdef"
  # Commits one batch, stands still when half of it is in the file, and goes on when it gets a
  # word; keeps the file until the next.
  FIRST = <<~'RUBY'
    require "gyre"
    require "gyre/log/output/file_output"
    path, id = ARGV
    STDOUT.sync = true
    output = Gyre::Log::Output::FileOutput.new(path)
    output.write("before\n", { id => 1 })
    output.sync
    output.instance_variable_get(:@file).instance_variable_get(:@io).define_singleton_method(:write_nonblock) do |bytes, *rest|
      super(bytes.byteslice(0, 4), *rest).tap do
        singleton_class.remove_method(:write_nonblock)
        STDOUT.puts("half")
        STDIN.gets
      end
    end
    output.write("one half\n", { id => 2 })
    output.sync
    output.reopen
    output.write("after\n", { id => 3 })
    output.sync
    STDOUT.puts("whole #{output.stored[id]}")
    STDIN.gets
  RUBY
  # Opens it, if it may: prints what is stored, or why it may not; and when it has found the lock
  # taken.
  SECOND = <<~'RUBY'
    require "gyre"
    require "gyre/log/output/file_output"
    STDOUT.sync = true
    says_that_it_waits = Module.new do
      def sleep(*)
        @said ||= STDOUT.puts("waits") || true
        super
      end
    end
    Gyre::Log::Output::Lock.prepend(says_that_it_waits)
    begin
      output = Gyre::Log::Output::FileOutput.new(ARGV[0], lock_patience_s: Float(ARGV[2]))
      STDOUT.puts(output.stored.fetch(ARGV[1], 0))
    rescue ArgumentError => error
      STDOUT.puts(error.message)
    end
  RUBY

  def setup
    @folder = Dir.mktmpdir
    @path = File.join(@folder, "a.log")
  end

  def teardown
    FileUtils.remove_entry(@folder)
  end

  def test_between_a_rename_and_the_hup_the_file_is_still_the_first_ones
    with_first do |input, out|
      File.rename(@path, "#{@path}.1")
      assert_equal "another server writes to #{@path}\n", second
      refute_path_exists @path
      assert_equal "before\none ", File.binread("#{@path}.1"), "the second one cut off what the first one was writing"
      input.puts
      assert_equal "whole 3\n", out.gets
    end
    assert_equal ["before\none half\n", "after\n"], ["#{@path}.1", @path].map { |path| File.binread(path) }
    assert_equal "3\n", second
  end

  def test_the_next_one_waits_until_the_first_has_ended_also_when_the_journal_is_made_again_meanwhile
    with_first do |input, out|
      File.rename(@path, "#{@path}.1")
      with_subprocess(*second_command(60)) do |_, says, err|
        assert_equal "waits\n", says.gets, -> { err.read }
        journal = File.stat("#{@path}.journal").ino
        input.puts
        assert_equal "whole 3\n", out.gets
        refute_equal journal, File.stat("#{@path}.journal").ino
        assert_nil says.wait_readable(0.2), "it may not go on"
        input.puts
        assert_equal "3\n", says.gets
      end
    end
  end

  def test_killed_the_first_one_holds_nothing
    with_first do |_, _, pid|
      File.rename(@path, "#{@path}.1")
      Process.kill(:KILL, pid)
      assert_equal "1\n", second(60)
    end
    assert_equal "before\n", File.binread("#{@path}.1")
  end

  def test_a_file_under_another_name_is_still_one_file
    with_first do
      File.symlink(@path, link = File.join(@folder, "b.log"))
      assert_equal "another server writes to #{link}\n", second(path: link)
    end
  end

  # The old wire alone needs no journal. No other process can make one there either.
  def test_in_a_folder_where_no_journal_can_be_made_the_file_is_written_to
    File.write(@path, "before\n")
    File.chmod(0o666, @path)
    File.chmod(0o555, @folder)
    out = ruby("-e", <<~'RUBY', @path)
      require "gyre"
      require "gyre/log/output/file_output"
      Process::UID.change_privilege(65_534) if Process.uid.zero?
      output = Gyre::Log::Output::FileOutput.new(ARGV[0], report: STDERR.method(:puts))
      output.write("one\n")
      output.reopen
      output.write("two\n")
      output.close
    RUBY
    assert_equal ["", true], [out.err, out.status.success?]
    assert_equal [["a.log"], "before\none\ntwo\n"], [Dir.children(@folder), File.binread(@path)]
  ensure
    File.chmod(0o755, @folder) # else only root could remove it
  end

  private

  def with_first
    input, to_first = IO.pipe
    with_subprocess(*ruby_command("-e", FIRST, @path, ID), in: input) do |pid, out, err|
      assert_equal "half\n", out.gets, -> { err.read }
      yield to_first, out, pid
    end
  ensure
    [input, to_first].each(&:close)
  end

  def second(patience_s = 0, path: @path)
    run = run_program(*second_command(patience_s, path))
    assert_equal "", run.err
    run.out.lines.last
  end

  def second_command(patience_s, path = @path)
    ruby_command("-e", SECOND, path, ID, patience_s.to_s)
  end
end
