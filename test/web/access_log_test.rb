# frozen_string_literal: true

# That the access log writes together what comes together, loses nothing but what it counts, and
# waits for nothing: Gyre::Web::AccessLog.

require "test_helper"
require "stringio"
require "gyre/web/access_log"

class WebAccessLogTest < Minitest::Test
  ENVIRONMENT = { "REMOTE_ADDR" => "127.0.0.1", "REQUEST_METHOD" => "GET", "REQUEST_URI" => "/", "SERVER_PROTOCOL" => "HTTP/1.1" }.freeze

  # Remembers each write; can be made to fail.
  class Output
    attr_reader :writes
    attr_accessor :failure

    def initialize
      @writes = []
    end

    def write(text)
      raise failure if failure

      @writes << text
    end

    def flush; end
  end

  # Takes what a log of the server is told.
  class Errors < Array
    alias error push
  end

  def setup
    @out = Output.new
    @errors = Errors.new
  end

  def test_the_lines_of_some_milliseconds_are_one_write
    eventually(what: "one write of ten lines, unless the machine pauses between them") do
      @out.writes.clear
      log = Gyre::Web::AccessLog.new("common", out: @out)
      in_loop { 10.times { Fiber.schedule { request(log) } } }
      log.close
      @out.writes.map { |text| text.lines.size } == [10]
    end
  end

  def test_a_line_is_written_without_another_one
    log = Gyre::Web::AccessLog.new("common", out: @out)
    2.times do |before|
      request(log)
      eventually { @out.writes.size > before }
    end
    log.close
  end

  def test_many_lines_are_all_written_without_a_pause_of_the_loop
    log = Gyre::Web::AccessLog.new("common", out: @out)
    in_loop { 20_000.times { request(log) } }
    log.close
    assert_equal 20_000, @out.writes.join.lines.size
    assert_equal 0, log.dropped
  end

  def test_closing_writes_the_rest
    log = Gyre::Web::AccessLog.new("common", out: @out)
    in_loop do
      request(log)
      log.close
      assert_equal 1, @out.writes.size
    end
  end

  def test_an_output_that_fails_is_reported_once_and_ends_nothing
    log = Gyre::Web::AccessLog.new("common", out: @out, log: @errors)
    @out.failure = Errno::ENOSPC.new
    2.times do
      request(log)
      wait_until_written(log)
    end
    assert_equal ["the access log cannot be written, lines are lost: No space left on device"], @errors
    log.close
  end

  def test_a_pipe_that_nothing_reads_loses_lines_that_are_counted_and_holds_up_nothing
    reader, writer = IO.pipe
    log = Gyre::Web::AccessLog.new("common", out: writer, log: @errors, bytes_limit: 10_000)
    in_loop { 5_000.times { request(log) } }
    assert_operator log.dropped, :>, 1_000
    reading = Thread.new { reader.read }
    wait_until_written(log)
    request(log)
    log.close
    writer.close
    assert_equal 5_001 - log.dropped, reading.value.lines.size
    reported = @errors.map { |error| error[/\Athe access log's reader is too slow: (\d+) lines lost\z/, 1] }
    assert_equal log.dropped, reported.sum(&:to_i), "all are counted, in one report or several: #{@errors}"
    assert_operator reported.size, :<, 10
  ensure
    [reader, writer].each(&:close)
  end

  private

  def request(log)
    log.call(ENVIRONMENT, 200, 0, 0.0)
  end

  def wait_until_written(log)
    eventually { log.instance_variable_get(:@writer).empty? }
  end

  def in_loop(&block)
    require "gyre"
    Gyre.run(&block)
  end
end
