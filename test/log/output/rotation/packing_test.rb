# frozen_string_literal: true

# Gyre::Log::Rotation::Packing: one file, compressed.

require "test_helper"
require "tmpdir"
require "gyre"
require "gyre/log/output/rotation"

class LogRotationPackingTest < Minitest::Test
  Packing = Gyre::Log::Rotation::Packing
  LINES = Array.new(20_000) { |index| "line #{index}\n" }.join.freeze

  def setup
    @folder = Dir.mktmpdir
    @path = File.join(@folder, "a.log.1")
    File.binwrite(@path, LINES)
    File.chmod(0o640, @path)
    File.utime(1_600_000_000, 1_600_000_000, @path)
  end

  def teardown
    FileUtils.remove_entry(@folder)
  end

  def test_gzip
    Packing.pack(@path)
    assert_equal ["a.log.1.gz"], Dir.children(@folder)
    assert_equal LINES, Zlib::GzipReader.open("#{@path}.gz", &:read)
    assert_kept("#{@path}.gz")
  end

  def test_the_packed_file_is_private_until_it_is_whole
    modes = []
    open = Zlib::GzipWriter.method(:new)
    Zlib::GzipWriter.stub(:new, ->(io) { open.call(io).tap { modes << (File.stat("#{@path}.gz.part").mode & 0o777) } }) do
      Packing.pack(@path)
    end
    assert_equal [0o600], modes
  end

  def test_owner_and_group_are_kept
    skip "only root may give files away" unless Process.euid.zero?
    File.chown(65_534, 12_345, @path)
    Packing.pack(@path)
    stat = File.stat("#{@path}.gz")
    assert_equal [65_534, 12_345, 0o640], [stat.uid, stat.gid, stat.mode & 0o777]
  end

  def test_where_there_is_no_room_the_plain_file_stays
    Dir.mkdir("#{@path}.gz.part")
    assert_raises(SystemCallError) { Packing.pack(@path) }
    assert_equal LINES, File.binread(@path)
  end

  private

  def assert_kept(path)
    stat = File.stat(path)
    assert_equal [0o640, 1_600_000_000], [stat.mode & 0o777, stat.mtime.to_i]
  end
end
