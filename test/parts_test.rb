# frozen_string_literal: true

# `require "gyre"` alone, a Gemfile's line: each name in the guides is there, in whatever order the
# parts were loaded, and no part is half there.

require "test_helper"
require "gyre/parts"
require "support/engines"
require "support/guide"

class PartsTest < Minitest::Test
  PAGES = [*Dir["#{GyreTest::Guide::FOLDER}/*.md"], "#{ROOT}/README.md"].map { |path| File.read(path, encoding: "UTF-8") }.freeze
  LATER = Gyre::Parts::FEATURES.fetch("Gyre").keys - [:Async] # needs a gem that the tests' bundle does not have, as Tracing
  # Each name by the part that it belongs to; nil: what is there at once.
  NAMES = PAGES.flat_map { |page| page.scan(/\bGyre(?:::[A-Z]\w*)+(?:\.[a-z]\w*[?=]?)?|\bGyre\.[a-z]\w*/) }
               .uniq.grep_v(/\AGyre::(?:Async|Tracing)/).group_by { |name| name[/\AGyre::(#{LATER.join("|")})\b/] }.freeze
  NATIVE = GyreTest::Engines::NATIVE.any?

  # Prints the names that are not there.
  ASK = <<~RUBY
    ARGV.each do |name|
      constant, method = name.split(".")
      found = Object.const_get(constant)
      puts name unless method.nil? || found.respond_to?(method) || found.respond_to?("\#{method}=")
    rescue NameError => error
      puts error.message
    end
  RUBY

  def test_the_guides_name_many_parts
    assert_operator NAMES.size, :>=, 10
    assert_operator NAMES.values.sum(&:size), :>=, 80
  end

  def test_each_name_in_the_guides_is_there
    skip "the parts need the extension" unless NATIVE
    runs = NAMES.each_slice(6).flat_map do |some|
      some.map { |_, names| Thread.new { ruby("-w", "-rgyre", "-e", ASK, *names, gems: true) } }.map(&:value)
    end
    assert_equal [["", ""]], runs.map { |run| [run.out, run.err] }.uniq
  end

  def test_names_are_there_beside_a_server_that_loaded_a_part_of_them
    skip "the parts need the extension" unless NATIVE
    names = NAMES.values.flatten.grep(/HTTP|WebSocket|SSE|Broadcast|DNS/)
    run = ruby("-w", "-rgyre/web", "-rgyre/cluster/mold", "-rgyre/cluster/worker", "-rgyre", "-e", ASK, *names, gems: true)
    assert_equal ["", ""], [run.out, run.err]
  end

  def test_threads_that_name_a_part_at_once_see_it_whole
    skip "the parts need the extension" unless NATIVE
    run = ruby("-rgyre", "-e", <<~RUBY)
      lines = [-> { Gyre::HTTP::Client.new("http://localhost:1") }, -> { Gyre::WebSocket.requested?({}) }, -> { Gyre::SSE.format("a") }]
      threads = lines.cycle.first(12).map { |line| Thread.new(&line) }
      threads.each(&:join)
      puts "whole"
    RUBY
    assert_equal ["whole\n", ""], [run.out, run.err]
  end

  def test_the_extension_defines_no_part_before_its_ruby_files
    run = ruby("-rgyre", "-e", "print %i[Async Broadcast DNS HTTP Log Memcached SSE Web WebSocket].select { |name| Gyre.const_defined?(name) }")
    assert_equal ["[]", ""], [run.out, run.err]
  end

  def test_a_name_that_is_nowhere_is_a_name_error
    run = ruby("-rgyre", "-e", "begin; Gyre::HTTTP; rescue NameError => error; print error.message; end")
    assert_equal ["uninitialized constant Gyre::HTTTP", ""], [run.out, run.err]
  end
end
