# frozen_string_literal: true

# Gyre::Log::Output::Access: mode and owner of log files and of what is beside them.

require "test_helper"
require "tmpdir"
require "gyre/log/output/access"

class LogOutputAccessTest < Minitest::Test
  Access = Gyre::Log::Output::Access

  def setup
    @folder = Dir.mktmpdir
    @path = File.join(@folder, "a.log")
    @umask = File.umask(0o022)
  end

  def teardown
    File.umask(@umask)
    FileUtils.remove_entry(@folder)
  end

  def open(predecessor: nil, **settings)
    io, fresh = Access.new(**settings).open(@path, predecessor)
    io.close
    [format("%o", File.stat(@path).mode & 0o7777), fresh]
  end

  def test_a_new_file_has_what_was_set_or_what_its_predecessor_had_or_what_the_umask_leaves
    assert_equal ["644", true], open
    File.unlink(@path)
    assert_equal ["640", true], open(mode: 0o640)
    predecessor = File.stat(@path)
    File.unlink(@path)
    assert_equal ["640", true], open(predecessor: predecessor)
    File.unlink(@path)
    assert_equal ["600", true], open(predecessor: predecessor, mode: 0o600)
  end

  def test_a_file_that_is_there_is_changed_only_by_what_was_set
    File.write(@path, "old", perm: 0o604)
    assert_equal ["604", false], open(predecessor: File.stat(@folder))
    assert_equal ["640", false], open(mode: 0o640)
    assert_equal "old", File.read(@path)
  end

  def test_a_link_to_nothing_gets_its_file
    File.symlink(File.join(@folder, "b.log"), @path)
    assert_equal ["640", true], open(mode: 0o640)
    assert_path_exists File.join(@folder, "b.log")
  end

  def test_owner_and_group_are_given_by_root
    skip "only root may give files away" unless Process.euid.zero?
    { "65534:12345" => [65_534, 12_345], ":12345" => [0, 12_345], "65534" => [65_534, 0] }.each do |owner, expected|
      open(owner: owner)
      assert_equal expected, [File.stat(@path).uid, File.stat(@path).gid]
      predecessor = File.stat(@path)
      File.unlink(@path)
      open(predecessor: predecessor)
      assert_equal expected, [File.stat(@path).uid, File.stat(@path).gid]
      File.unlink(@path)
    end
  end

  # The group that the file gets instead may be a wider one.
  def test_what_cannot_be_given_is_not_opened_to_others
    File.open(@path, "w", 0o600) do |io|
      io.define_singleton_method(:chown) { |*| raise Errno::EPERM }
      refute Access.give(io, 1, 54_321, 0o664)
      assert_equal 0o604, io.stat.mode & 0o7777
    end
  end

  def test_a_private_file_is_narrowed_when_it_is_opened_again
    File.write(@path, "x", perm: 0o644)
    Access.private_file(@path, File::RDWR).close
    assert_equal 0o600, File.stat(@path).mode & 0o7777
  end

  def test_an_owner_that_is_unknown_here_is_refused
    assert_equal [0, nil], Access.owner("root")
    ["", ":", "no-such-user-here", "root:no-such-group-here"].each { |owner| assert_raises(ArgumentError) { Access.owner(owner) } }
  end
end
