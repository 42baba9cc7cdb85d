# frozen_string_literal: true

# What the README promises: its program prints what stands below it, its links lead somewhere, and it fits one screen.
require "test_helper"

class DocsReadmeTest < Minitest::Test
  README = File.read("#{ROOT}/README.md")

  def test_its_program_prints_what_stands_below_it
    code, expected = README.match(/^```ruby\n(.*?)^```\n\n```text\n(.*?)^```$/m).captures
    *lines, time = expected.lines
    run = -> { ruby("-e", code) }
    in_one_of(run.call, run) do |output|
      assert_empty output.err
      assert_equal lines, output.out.lines[0..-2]
      assert_equal time[/\D+/], output.out.lines.last[/\D+/]
      assert_includes 0.3...0.55, output.out.lines.last[/[\d.]+/].to_f, "a sum would be 0.6"
    end
  end

  def test_its_links_lead_somewhere
    links = README.scan(/\]\(([^)#:]+)\)/).flatten
    refute_empty links
    assert_empty links.reject { |path| File.exist?("#{ROOT}/#{path}") }
  end

  def test_it_fits_one_screen
    assert_operator README.count("\n"), :<=, 80
  end
end
