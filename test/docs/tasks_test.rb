# frozen_string_literal: true

# The programs in docs/tasks.md print what the guide says, on every engine.

require "test_helper"
require "support/engines"

GyreTest::Engines.test_case("DocsTasksTest") do
  guide = File.expand_path("../../docs/tasks.md", __dir__)
  programs = File.read(guide).scan(/^```ruby\n(.*?)^```\n\n```text\n(.*?)^```$/m)

  define_method(:programs) { programs }

  def test_each_program_has_an_output_to_compare_with
    guide = File.read(File.expand_path("../../docs/tasks.md", __dir__))
    assert_equal guide.scan(/^```ruby$/).size, programs.size
    assert_operator programs.size, :>, 8
  end

  def test_the_programs_print_what_the_guide_says
    runs = programs.each_slice(6).flat_map do |some|
      some.map { |code, _| Thread.new { ruby("-e", code, env: { "GYRE_BACKEND" => backend, "LC_ALL" => "C.UTF-8" }) } }.map(&:value)
    end
    programs.zip(runs) do |(code, expected), run|
      assert_equal [expected, ""], [run.out.gsub(/\d+\.\d s old/, "0.0 s old"), run.err], code
    end
  end
end
