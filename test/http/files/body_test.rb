# frozen_string_literal: true

# Bodies from files, and that the loop does not wait for a disk: Gyre::HTTP::Files::Body.

require "test_helper"
require "tempfile"
require "gyre/http"
require "gyre/http/files/body"

class HTTPFilesBodyTest < Minitest::Test
  Body = Gyre::HTTP::Files::Body

  # A file of which nothing is in memory before it was loaded.
  class ColdFile
    attr_reader :loads, :size

    def initialize(size)
      @size = size
      @loads = []
    end

    def cached?(offset, length)
      @loads.any? { |_, from, count| from <= offset && offset + length <= from + count }
    end

    def read_cached(offset, length)
      "x" * length if cached?(offset, length)
    end

    # Its own duplicate, as IO's.
    def to_io = self
    def dup = self
    def close; end

    def pread(length, offset)
      @loads << [Thread.current, offset, length]
      "x" * length
    end
  end

  def setup
    Gyre::Loop.require_native("this test")
    @temporary = Tempfile.create("gyre")
    @temporary.binmode
    @temporary.write(Random.bytes(1_500_000))
    @temporary.flush
    @content = File.binread(@temporary.path)
    @file = Gyre::HTTP::OpenFile.of(File.open(@temporary.path))
  end

  def teardown
    @file.close
    @temporary.close
    File.unlink(@temporary.path)
  end

  def test_each_gives_the_range_or_the_whole_file
    body = Body.new(@file, 10, 700_000)
    assert_equal 700_000, body.bytesize
    assert_equal @content[10, 700_000], body.to_enum.to_a.join
    assert_equal @content, Body.new(@file).to_enum.to_a.join
  end

  def test_a_file_that_becomes_shorter_is_an_error
    body = Body.new(@file)
    File.truncate(@temporary.path, 600_000)
    assert_raises(EOFError) { body.each { |_| } }
  end

  def test_bytes_outside_of_memory_are_loaded_in_a_thread_before_they_are_sent
    cold = ColdFile.new(Body::PIECE_BYTES + 5)
    pieces = []
    Gyre.run { Body.new(cold).each_piece { |*piece| pieces << piece } }
    assert_equal [[0, Body::PIECE_BYTES], [Body::PIECE_BYTES, 5]], pieces
    assert_equal pieces, cold.loads.map { |load| load.drop(1) }
    refute_includes cold.loads.map(&:first), Thread.current
  end

  def test_a_read_of_what_is_not_in_memory_does_the_same
    cold = ColdFile.new(100)
    assert_equal("x" * 100, Gyre.run { Body.read(cold, 0, 100) })
    refute_equal Thread.current, cold.loads.first.first
  end

  # Each question makes the kernel load the bytes, which another one may find then.
  def test_the_kernel_tells_what_is_in_memory
    assert @file.cached?(0, @file.size)
    @temporary.fsync
    @file.to_io.advise(:dontneed)
    skip "this file system keeps files in memory" if @file.read_cached(0, 100_000)

    Body.load(@file, 0, @file.size)
    assert @file.cached?(0, @file.size)
    assert_equal @content[0, 100_000], @file.read_cached(0, 100_000)
  end

  def test_ranges_beyond_the_end_are_short_and_others_refused
    assert_equal [@content[-10..], ""], [@file.read_cached(1_499_990, 100), @file.read_cached(2_000_000, 100)]
    assert_equal "", Body.read(@file, 2_000_000, 10)
    [[-1, 1], [0, -1], [0, 2 << 20]].each { |range| assert_raises(ArgumentError) { @file.read_cached(*range) } }
    assert_raises(ArgumentError) { @file.cached?(-1, 1) }
  end
end
