# frozen_string_literal: true

# A run that could not measure everything of Gyre's is no result and gives its reasons; what peers
# lack is noted.
require "test_helper"
require_relative "../../bench/support/report"
require_relative "../../bench/support/suite"

class BenchReportTest < Minitest::Test
  class LittleSuite < Bench::Suite
    SCENARIOS = %w[fast slow].map do |key|
      Bench::Scenario.new(key, key.capitalize, subjects: %w[gyre gyre-loop puma], columns: [Bench::Column.new("µs", :cpu_us, 2)])
    end
    def name = "little"
    def title = "Little"
    def cores = ""
    def scenarios = SCENARIOS
    def about(_settings) = ["once"]
  end

  def setup
    super
    @results = Bench::Results.new
    %w[fast slow].product(%w[gyre gyre-loop puma]) { |key, name| @results.add(key, name, { cpu_us: 7.0 }) }
  end

  def test_a_whole_run_has_no_gaps
    assert_empty report.gaps
  end

  def test_a_subject_of_ours_that_failed_is_a_gap_with_its_reason
    @results.problem("slow", "gyre-loop", "the load client said: lines=3")
    assert_equal ["slow, gyre-loop, not measured: the load client said: lines=3"], report.gaps
  end

  def test_a_table_without_rows_is_a_gap
    @results = Bench::Results.new
    @results.add("fast", "gyre", { cpu_us: 7.0 })
    assert_equal ["slow has no figures"], report.gaps
  end

  def test_a_peer_that_failed_or_was_left_out_is_a_note
    @results.problem("slow", "puma", "ended")
    assert_empty report.gaps
    text = report(left_out: { "iodine" => "does not install on Ruby 4.0.5" }).text
    assert_includes text, "## Problems\n\n- slow, puma, not measured: ended\n- iodine, left out: does not install on Ruby 4.0.5\n"
  end

  def test_its_link_leads_from_where_it_is_written
    assert_includes report.text, "](../README.md)"
    assert_includes report(ruby: "Ruby 3.4.5p51 + YJIT").text, "](../../README.md)"
  end

  private

  def report(**settings)
    suite = LittleSuite.new
    facts = { versions: {}, date: "2026-11-23", machine: "a machine", load_average: 0.1, ruby: "Ruby 4.0.5p0 + YJIT", whole: true, rounds: 1 }
    Bench::Report.new(suite, @results, suite.scenarios, %w[gyre gyre-loop puma], facts.merge(settings))
  end
end
