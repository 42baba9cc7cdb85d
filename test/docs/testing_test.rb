# frozen_string_literal: true

# The programs in docs/testing.md print what the guide shows. The portable engine has no such clock.

require "test_helper"
require "support/engines"

GyreTest::Engines.test_case("DocsTestingTest", backends: GyreTest::Engines::NATIVE.first(1)) do
  guide = File.read(File.expand_path("../../docs/testing.md", __dir__))
  programs = guide.scan(/^```ruby\n(.*?)^```\n\n```text\n(.*?)^```$/m)

  define_method(:guide) { guide }
  define_method(:programs) { programs }

  def test_the_programs_print_what_the_guide_shows
    assert_equal [2, 2], [guide.scan(/^```ruby$/).size, programs.size]
    programs.each do |code, expected|
      run = ruby("-e", code, env: { "GYRE_BACKEND" => backend })
      assert_equal [expected, ""], [run.out, run.err], code
    end
  end
end
