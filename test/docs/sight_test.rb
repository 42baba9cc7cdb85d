# frozen_string_literal: true

# The programs in docs/sight.md print what the guide says, on every engine; times, and how this Ruby names methods, aside.

require "test_helper"
require "support/engines"

GyreTest::Engines.test_case("DocsSightTest") do
  guide = File.expand_path("../../docs/sight.md", __dir__)
  programs = File.read(guide).scan(/^```ruby\n(.*?)^```\n\n```text\n(.*?)^```$/m)

  define_method(:programs) { programs }

  def test_the_programs_print_what_the_guide_says
    assert_equal 4, programs.size
    runs = programs.map { |code, _| Thread.new { ruby("-e", code, env: { "GYRE_BACKEND" => backend }) } }.map(&:value)
    programs.zip(runs) do |(code, expected), run|
      again = -> { ruby("-e", code, env: { "GYRE_BACKEND" => backend }) }
      in_one_of(run, again) { |one| assert_equal [alike(expected), ""], [alike(one.out), one.err], code }
    end
  end

  private

  def alike(text)
    lines = text.gsub(/\d+\.\d+ s/, "0 s").gsub("thread main, #{backend}:", "thread main, epoll:").lines
    lines.map! { |line| line.gsub(/[`'](?:\w+[#.])?(.*)'$/, "'\\1'") }
    # Where just it computes is luck, and how often the hold is reported, too.
    lines.reject { |line| line.match?(/\A    -e:.*:in '(?!checksum|block)/) }.uniq
  end
end
