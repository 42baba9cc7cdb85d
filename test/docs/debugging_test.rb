# frozen_string_literal: true

# The programs in docs/debugging.md print what the guide shows, on every engine; times, and how this
# Ruby names methods, aside.

require "test_helper"
require "support/engines"
require "support/guide"

GyreTest::Engines.test_case("DocsDebuggingTest") do
  include GyreTest::Guide

  guide = File.expand_path("../../docs/debugging.md", __dir__)
  text = File.read(guide)

  define_method(:programs) { @programs ||= text.scan(/^```ruby\n(.*?)^```\n\n```text\n(.*?)^```$/m) }

  def test_the_programs_print_what_the_guide_shows
    assert_equal 4, programs.size
    programs.each { |_, expected| expected.sub!(/ lag_\w+( lag_\w+)*$/, "") } if backend == Gyre::Loop::PORTABLE # has no figures of lag
    runs = programs.map { |code, _| Thread.new { run_app(code, { "GYRE_BACKEND" => backend }, clock(code)) } }
    programs.zip(runs.map(&:value)) { |(code, expected), run| assert_equal [alike(expected), ""], [alike(run.out), run.err], code }
  end

  private

  # One computes, in real time, until it is reported.
  def clock(code)
    code.include?("def checksum") ? [GyreTest::Guide::VIRTUAL.first, "-rsupport/computes_until_told"] : GyreTest::Guide::VIRTUAL
  end

  def alike(text)
    lines = text.gsub(/\d+\.\d+ s/, "0 s").gsub("thread main, #{backend}:", "thread main, epoll:").lines
    lines = lines.grep_v(GyreTest::Guide::USAGE)
    lines.map! { |line| line.gsub(/[`'](?:\w+[#.])?(.*)'$/, "'\\1'") }
    # Where just it computes is luck, and how often the hold is reported, too.
    lines.reject { |line| line.match?(%r{\A    (?:app.rb:.*:in '(?!checksum|block)|.*/computes_until_told)}) }.uniq
  end
end
