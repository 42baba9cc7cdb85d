# frozen_string_literal: true

# Runs the programs of a guide in docs/ on every engine: each ```ruby block prints what stands in the ```text block behind it.
# Included in the test cases of test/docs.

module GyreTest
  # A test case a guide.
  module Guide
    FOLDER = File.expand_path("../../docs", __dir__)
    # As many at once; most of them wait most of the time. Their times are for readers: one that was late gets another chance, alone.
    AT_ONCE = 6

    # @param name [String] the test case
    # @param file [String] in docs/
    # @param least [Integer] programs that are there at least
    # @param backends [Array<String>] see {Engines.test_case}
    def self.test_case(name, file, least:, backends: Engines::BACKENDS)
      text = File.read(File.join(FOLDER, file), encoding: "UTF-8")
      programs = text.scan(/^```ruby\n(.*?)^```\n\n```text\n(.*?)^```$/m)
      Engines.test_case(name, backends: backends) do
        include Guide

        define_method(:programs) { programs }

        define_method(:test_each_program_has_an_output_to_compare_with) do
          assert_equal text.scan(/^```ruby$/).size, programs.size
          assert_operator programs.size, :>=, least
        end
      end
    end

    def test_the_programs_print_what_the_guide_says
      runs = programs.each_slice(AT_ONCE).flat_map do |some|
        some.map { |code, _| Thread.new { ruby("-e", code, env: { "GYRE_BACKEND" => backend, "LC_ALL" => "C.UTF-8" }) } }.map(&:value)
      end
      programs.zip(runs) do |(code, expected), run|
        again = -> { ruby("-e", code, env: { "GYRE_BACKEND" => backend, "LC_ALL" => "C.UTF-8" }) }
        in_one_of(run, again) { |one| assert_equal [expected, ""], [Guide.timeless(one.out), one.err], code }
      end
    end

    # @return [String] what a program prints, in UTF-8, as if it had taken no time, at one moment
    def self.timeless(out)
      out.dup.force_encoding(Encoding::UTF_8).gsub(/\d+\.\d s old/, "0.0 s old")
         .gsub(%r{\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\|}, "2026/11/21 19:20:00|")
    end
  end
end
