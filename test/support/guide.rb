# frozen_string_literal: true

# Runs the programs of a guide in docs/ on every engine, as app.rb: each ```ruby block prints what
# stands in the ```text block behind it. A program sees the gems that its page names for the Gemfile
# (`gem "logger"`), and no others of the tests. Included in the test cases of test/docs.

module GyreTest
  # A test case a guide.
  module Guide
    FOLDER = File.expand_path("../../docs", __dir__)
    # Options of Ruby's for a program whose tasks sleep on a clock that jumps.
    VIRTUAL = ["-I#{File.expand_path("..", __dir__)}", "-rsupport/virtual_time"].freeze
    # A line of Gyre.print_hierarchy about CPU time, which a slow machine adds.
    USAGE = /^ +[\d.]+ s of CPU, .*\n/.freeze
    # As many at once; most of them wait most of the time.
    AT_ONCE = 6

    def self.test_case(name, file, least:, virtual: false, backends: Engines::BACKENDS, &body)
      text = File.read(File.join(FOLDER, file), encoding: "UTF-8")
      programs = text.scan(/^```ruby\n(.*?)^```\n\n```text\n(.*?)^```$/m)
      Engines.test_case(name, backends: backends) do
        include Guide

        define_method(:programs) { programs }
        define_method(:gems) { text.scan(/\bgem "([\w-]+)"/).flatten.uniq }
        define_method(:options) { virtual ? VIRTUAL : [] }
        class_exec(&body) if body

        define_method(:test_each_program_has_an_output_to_compare_with) do
          assert_equal text.scan(/^```ruby$/).size, programs.size
          assert_operator programs.size, :>=, least
        end
      end
    end

    def environment = {}
    def gems = []

    def test_the_programs_print_what_the_guide_shows
      variables = { "GYRE_BACKEND" => backend, "LC_ALL" => "C.UTF-8", **environment }
      runs = programs.each_slice(AT_ONCE).flat_map do |some|
        some.map { |code, _| Thread.new { run_app(code, variables, options) } }.map(&:value)
      end
      programs.zip(runs) { |(code, expected), run| assert_equal [expected, ""], [Guide.timeless(run.out), run.err], code }
    end

    # As a reader has it, in a file.
    def run_app(code, variables, options)
      Dir.mktmpdir("gyre-guide") do |folder|
        File.write("#{folder}/app.rb", code)
        ruby(*options, "app.rb", env: { "GEM_HOME" => "#{folder}/gems", "GEM_PATH" => "#{folder}/gems", **libraries, **variables }, chdir: folder)
      end
    end

    # The folders of the page's gems.
    def libraries
      paths = gems.flat_map { |name| Gem.loaded_specs[name]&.full_require_paths || [] }
      paths.empty? ? {} : { "RUBYLIB" => paths.join(":") }
    end

    # Returns what a program prints, in UTF-8, as if it had taken no time beside its sleeps, at one
    # moment. One after another, the README's tasks would take 0.6 s.
    def self.timeless(out)
      out.dup.force_encoding(Encoding::UTF_8).gsub(USAGE, "").gsub(/\d+\.\d s old/, "0.0 s old").gsub(/all in 0\.[45] s/, "all in 0.3 s")
         .gsub(%r{\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\|}, "2026/11/21 19:20:00|")
    end
  end
end
