# frozen_string_literal: true

require "test_helper"
require "stringio"
require "gyre/http/body_io"

class HTTPBodyIOTest < Minitest::Test
  # Stands for a Response.
  class Output
    attr_reader :written, :finished

    def initialize
      @written = []
      @finished = 0
    end

    def write(string)
      @written << string
      string.bytesize
    end

    def finish
      @finished += 1
    end
  end

  def setup
    @output = Output.new
    @stream = Gyre::HTTP::BodyIO.new(StringIO.new("one\ntwo"), @output)
  end

  def test_it_reads_the_requests_body
    assert_equal "on", @stream.read(2)
    assert_equal "e\n", @stream.gets
    assert_equal "tw", @stream.readpartial(2)
    assert_equal "o", @stream.read
    assert_raises(EOFError) { @stream.read_partial(1) }
  end

  def test_it_gives_lines
    lines = []
    @stream.each { |line| lines << line }
    assert_equal ["one\n", "two"], lines
  end

  def test_it_writes_strings_and_what_can_be_one
    assert_equal 4, @stream.write("ab", :cd)
    assert_same @stream, @stream << "e" << 5
    assert_same @stream, @stream.flush
    assert_equal %w[ab cd e 5], @output.written
  end

  def test_it_can_be_closed_by_halves
    refute @stream.closed?
    @stream.close_read
    refute @stream.closed?
    assert_raises(IOError) { @stream.read }
    @stream.write("still")
    2.times { @stream.close_write }
    assert @stream.closed?
    [-> { @stream.write("x") }, -> { @stream << "x" }, -> { @stream.flush }].each { |write| assert_raises(IOError, &write) }
    assert_equal 1, @output.finished
  end

  def test_close_ends_both_and_may_be_called_again
    3.times { @stream.close }
    assert @stream.closed?
    assert_equal 1, @output.finished
    assert_raises(IOError) { @stream.gets }
  end
end
