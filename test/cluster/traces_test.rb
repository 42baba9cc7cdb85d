# frozen_string_literal: true

# Shortened backtraces: Gyre::Cluster::Traces.

require "test_helper"
require "gyre/cluster/traces"

class ClusterTracesTest < Minitest::Test
  def test_lines_below_the_caller_are_cut_from_an_error_and_its_causes
    error = raised(%w[app.ru:2 lib/loader.rb:1 gyre/own.rb:7 gyre/other.rb:3])
    assert_same error, Gyre::Cluster::Traces.cut(error, "gyre/own.rb", /loader/)
    assert_equal [%w[app.ru:2], %w[app.ru:2]], [error.backtrace, error.cause.backtrace]
  end

  def test_a_trace_without_the_program_stays_whole
    error = raised(%w[gyre/own.rb:7 gyre/other.rb:3])
    assert_equal %w[gyre/own.rb:7 gyre/other.rb:3], Gyre::Cluster::Traces.cut(error, "gyre/own.rb").backtrace
  end

  private

  def raised(lines)
    raise RuntimeError, "cause", lines
  rescue RuntimeError
    begin
      raise RuntimeError, "error", lines
    rescue RuntimeError => error
      error
    end
  end
end
