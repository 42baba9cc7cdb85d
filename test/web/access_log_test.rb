# frozen_string_literal: true

# That the access log writes together what comes together and loses nothing: Gyre::Web::AccessLog.

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

  def setup
    @out = Output.new
  end

  def test_without_a_loop_a_line_is_written_at_once
    log = Gyre::Web::AccessLog.new("common", out: @out)
    2.times { request(log) }
    assert_equal 2, @out.writes.size
  end

  def test_the_lines_of_one_turn_are_one_write
    log = Gyre::Web::AccessLog.new("common", out: @out)
    in_loop do
      10.times { Fiber.schedule { request(log) } }
      assert_empty @out.writes
    end
    assert_equal [10], @out.writes.map { |text| text.lines.size }
  end

  def test_lines_of_a_later_turn_are_written_as_well
    log = Gyre::Web::AccessLog.new("common", out: @out)
    in_loop do
      3.times do
        request(log)
        sleep(0.001)
      end
    end
    assert_equal [1, 1, 1], @out.writes.map { |text| text.lines.size }
  end

  def test_a_full_buffer_is_written_before_the_turn_ends
    log = Gyre::Web::AccessLog.new("common", out: @out)
    in_loop do
      1_000.times { request(log) }
      refute_empty @out.writes
    end
    assert_equal 1_000, @out.writes.join.lines.size
    assert_operator @out.writes.size, :<, 10
  end

  def test_closing_writes_the_rest
    log = Gyre::Web::AccessLog.new("common", out: @out)
    in_loop do
      request(log)
      log.close
      assert_equal 1, @out.writes.size
    end
    assert_equal 1, @out.writes.size
  end

  def test_an_output_that_fails_is_reported_once_and_ends_nothing
    faults = []
    log = Gyre::Web::AccessLog.new("common", out: @out, on_error: ->(error) { faults << error })
    @out.failure = Errno::ENOSPC.new
    2.times { request(log) }
    assert_equal [Errno::ENOSPC], faults.map(&:class)
  end

  private

  def request(log)
    log.call(ENVIRONMENT, 200, 0, 0.0)
  end

  def in_loop(&block)
    require "gyre"
    Gyre.run(&block)
  end
end
