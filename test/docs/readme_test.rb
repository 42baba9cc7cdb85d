# frozen_string_literal: true

# What the README promises: its program prints what stands below it, and it fits one screen.
require "test_helper"
require "support/guide"

class DocsReadmeTest < Minitest::Test
  README = File.read("#{ROOT}/README.md")

  def test_its_program_prints_what_stands_below_it
    code, expected = README.match(/^```ruby\n(.*?)^```\n\n```text\n(.*?)^```$/m).captures
    output = ruby(*GyreTest::Guide::VIRTUAL, "-e", code)
    assert_equal [expected, ""], [output.out, output.err]
  end

  def test_it_fits_one_screen
    assert_operator README.count("\n"), :<=, 80
  end
end
