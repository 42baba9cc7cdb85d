# frozen_string_literal: true

# The file with the process id: whose it is, when it may be taken, when it goes.

require "test_helper"
require "gyre/cli/process/pidfile"

class CLIPidfileTest < Minitest::Test
  def setup
    @folder = Dir.mktmpdir
    @path = File.join(@folder, "log.pid")
    @pidfile = Gyre::CLI::Pidfile.new(@path)
  end

  def teardown
    FileUtils.remove_entry(@folder)
  end

  # A process that has ended, and been waited for.
  def dead_pid
    Process.wait(pid = Process.spawn("true"))
    pid
  end

  def test_it_is_own_once_it_is_written
    refute_predicate @pidfile, :own?
    @pidfile.write
    assert_predicate @pidfile, :own?
  end

  def test_a_link_that_is_planted_leads_nowhere
    Dir.mktmpdir do |folder|
      File.write(other = File.join(folder, "other"), "untouched")
      File.symlink(other, "#{path = File.join(folder, "pid")}.#{Process.pid}")
      Gyre::CLI::Pidfile.new(path).write
      assert_equal ["untouched", "#{Process.pid}\n", "file"], [File.read(other), File.read(path), File.ftype(path)]
    end
  end

  def test_it_is_written_and_removed
    @pidfile.write
    assert_equal "#{Process.pid}\n", File.read(@path)
    @pidfile.remove
    assert_empty Dir.children(@folder)
  end

  def test_one_that_a_dead_process_left_is_replaced
    ["#{dead_pid}\n", "", "nonsense"].each do |left|
      File.write(@path, left)
      @pidfile.write
      assert_equal "#{Process.pid}\n", File.read(@path)
    end
  end

  def test_one_of_a_living_process_is_refused_with_a_remedy
    with_subprocess("sleep", "60") do |pid, _, _|
      File.write(@path, "#{pid}\n")
      error = assert_raises(Gyre::StartError) { @pidfile.write }
      assert_match(/log\.pid: process #{pid} has it and runs\. Stop it with `kill #{pid}`, name another file with --pidfile/, error.message)
      assert_equal "#{pid}\n", File.read(@path)
    end
  end

  def test_a_process_that_has_the_number_of_a_dead_one_is_not_taken_for_it
    skip "needs /proc" unless File.exist?("/proc/self/stat")
    with_subprocess("sleep", "60") do |pid, _, _|
      File.write(@path, "#{pid}\n")
      File.utime(Time.now - 3600, Time.now - 3600, @path)
      @pidfile.write
      assert_equal "#{Process.pid}\n", File.read(@path)
    end
  end

  def test_its_own_is_kept_by_a_fresh_copy
    @pidfile.write
    @pidfile.write
    assert_equal "#{Process.pid}\n", File.read(@path)
  end

  def test_a_successors_stays
    @pidfile.write
    File.write(@path, "1\n")
    @pidfile.remove
    assert_equal "1\n", File.read(@path)
    File.delete(@path)
    @pidfile.remove # and none is no trouble
  end

  def test_a_folder_that_is_not_there_is_reported
    error = assert_raises(Gyre::StartError) { Gyre::CLI::Pidfile.new(File.join(@folder, "a", "b")).write }
    assert_match(%r{a/b: the process id cannot be written: no such file or directory}, error.message)
  end
end
