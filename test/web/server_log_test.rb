# frozen_string_literal: true

# Tests the log of the server's own messages: Gyre::Web::ServerLog.

require "test_helper"
require "stringio"
require "gyre/web/server_log"

class WebServerLogTest < Minitest::Test
  def setup
    @notices = StringIO.new
    @errors = StringIO.new
  end

  def test_notices_are_plain_lines
    Gyre::Web::ServerLog.new(notices: @notices, errors: @errors).info("Stopped")
    assert_equal ["Stopped\n", ""], [@notices.string, @errors.string]
  end

  def test_without_a_place_for_notices_they_are_dropped
    Gyre::Web::ServerLog.new(errors: @errors).info("Stopped")
    assert_equal "", @errors.string
  end

  def test_errors_have_the_time_and_end_with_one_newline
    log = Gyre::Web::ServerLog.new(notices: @notices, errors: @errors)
    log.error("no\n  trace\n")
    assert_match(/\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d gyre: no\n  trace\n\z/, @errors.string)
    assert_equal "", @notices.string
  end

  def test_a_pipe_without_a_reader_blocks_nothing_and_lost_lines_are_reported
    reader, writer = IO.pipe
    log = Gyre::Web::ServerLog.new(errors: writer)
    30.times { |number| log.error("#{number} #{"x" * 99_999}") }
    text = +""
    text << reader.readpartial(65_536) until text.match?(/^gyre: \d+ lines of this log were lost here/)
    log.error("31")
    text << reader.readpartial(65_536) until text.end_with?("gyre: 31\n")
    numbers = text.scan(/gyre: (\d+) x{99999}$/).flatten.map(&:to_i)
    assert_equal numbers.sort, numbers
    assert_equal 30, numbers.size + text[/(\d+) lines of this log/, 1].to_i
  ensure
    [reader, writer].each(&:close)
    log.instance_variable_get(:@waiting).each_value(&:close)
  end

  def test_an_output_that_is_closed_ends_nothing
    @errors.close
    Gyre::Web::ServerLog.new(errors: @errors).error("unread")
  end
end
