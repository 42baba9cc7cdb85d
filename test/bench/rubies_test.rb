# frozen_string_literal: true

# Results of two Rubies lie apart, and are compared row by row.
require "test_helper"
require_relative "../../bench/support/rubies"

class BenchRubiesTest < Minitest::Test
  def test_the_comparison_is_that_of_the_results
    rubies = Bench::Rubies.load
    return refute_path_exists(Bench::Rubies.path) if rubies.empty?

    assert_equal rubies.text, File.read(Bench::Rubies.path), "run rake docs:figures"
  end

  def test_results_in_each_folder_are_those_of_its_ruby
    Dir["#{Bench::ResultFile::FOLDER}/ruby-*/*.md"].each do |path|
      assert_equal path[%r{/ruby-([\d.]+)/}, 1], Bench::ResultFile.new(File.read(path)).ruby, path
    end
  end

  def test_the_quoted_ruby_has_the_folder_itself_and_others_have_their_own
    assert_match %r{/bench/results/http\.md\z}, Bench::ResultFile.path("http", "4.0.5")
    assert_match %r{/bench/results/ruby-3\.4/http\.md\z}, Bench::ResultFile.path("http", "3.4.5")
  end

  HTTP = <<~MARKDOWN
    - Ruby %s + YJIT · nginx 1.22

    ## Hello

    | server | requests/s | server CPU, µs a request | RSS, MB |
    | --- | ---: | ---: | ---: |
    | gyre | 100 | %s | 50 |
    | nginx | 100 | 5.00 | 50 |
    | puma | 100 | %s | 50 |
    | falcon | 100 | – | 50 |

    ## Open

    | server | requests/s |
    | --- | ---: |
    | gyre | %s |
  MARKDOWN

  def test_gyre_is_compared_row_by_row_with_its_peers_beside_it
    rows = compare(format(HTTP, "3.4.5", "7.00 (6.90–7.10)", "30.00", "1,000"),
                   format(HTTP, "4.0.5", "7.70 (7.05–8.00)", "33.00", "1,010"))
    assert_equal [%w[Hello gyre], %w[Open gyre]], (rows.map { |row| [row.table, row.row] })
    assert_equal ["server CPU, µs a request", "requests/s"], rows.map(&:column)
    assert_in_delta 1.1, rows[0].ratio
    assert_in_delta 1.05, rows[0].peers
    assert_predicate rows[0], :slower?
    assert_predicate rows[0], :overlap?
    assert_in_delta 0.99, rows[1].ratio
    assert_nil rows[1].peers
    refute_predicate rows[1], :slower?
  end

  def test_what_is_slower_is_listed
    text = rubies(format(HTTP, "3.4.5", "7.00", "30.00", "1,000"), format(HTTP, "4.0.5", "7.70", "33.00", "500")).text
    assert_includes text, "from the results of Ruby 4.0.5 + YJIT and Ruby 3.4.5 + YJIT"
    assert_includes text, "| Hello: gyre | server CPU, µs a request | 7.00 | 7.70 | 1.10 | 1.05 |"
    assert_includes text, "## Slower or larger by more than 3 %\n\n- http, Open: gyre: 100 %\n- http, Hello: gyre: 10 %\n"
    assert_includes rubies(*Array.new(2) { format(HTTP, "3.4.5", "7.00", "30.00", "1") }).text, "3 %\n\nNothing."
  end

  def test_a_table_may_have_gyre_in_its_columns
    table = "- Ruby 3.4.5\n\n## Micro\n\n| CPU | Gyre, epoll | Async | Async ÷ Gyre |\n| --- | ---: | ---: | ---: |\n| timers | %s | 4.00 | 2.00 |\n"
    rows = compare(format(table, "2.00"), format(table, "3.00"))
    assert_equal [["timers, Gyre, epoll", 1.5, 1.0]], (rows.map { |row| [row.row, row.ratio, row.peers] })
  end

  private

  def compare(before, after) = rubies(before, after).rows
  def rubies(before, after) = Bench::Rubies.new({ "http" => [before, after].map { |text| Bench::ResultFile.new(text) } })
end
