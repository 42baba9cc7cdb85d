# frozen_string_literal: true

# README's and the guides' figures are those of bench/results; a mark that leads nowhere is an
# error.
require "test_helper"
require_relative "../../bench/support/figures"

class BenchFiguresTest < Minitest::Test
  RESULTS = Bench::ResultFile.new(<<~MARKDOWN)
    # Some servers

    - Ruby 3.4.5p51 + YJIT · nginx 1.22.1

    ## Hello, 64 connections, more headers

    | server | requests/s | server CPU, µs a request |
    | --- | ---: | ---: |
    | gyre | 1,000 | 7.72 (7.66–8.00) |

    ## Hello, 64 connections

    | server | requests/s | server CPU, µs a request |
    | --- | ---: | ---: |
    | gyre | 142,723 (141,650–143,170) | 6.98 (6.87–7.02) |
    | puma, old | 30,436 | 32.85 |
    | falcon | 20,000 | – |

    | server | answered |
    | --- | ---: |
    | gyre | 15,000 |
  MARKDOWN

  def test_every_figure_of_readme_and_the_guides_is_that_of_the_results
    stale = Bench::Figures.files.reject { |path| (text = File.read(path)) == Bench::Figures.new(text).filled }
    assert_empty stale, "run rake docs:figures"
  end

  def test_no_figure_of_readme_and_the_guides_is_without_a_mark
    loose = Bench::Figures.files.to_h { |path| [path.delete_prefix("#{ROOT}/"), Bench::Figures.new(File.read(path)).unmarked] }
    assert_empty loose.reject { |_, figures| figures.empty? }, "name where they come from, as in bench/support/figures.rb"
  end

  def test_a_mark_names_file_table_row_and_column
    assert_equal "costs 7.0<!--http / Hello, 64 connections / gyre / server CPU--> µs",
                 filled("costs 1.3<!--http / Hello, 64 connections / gyre / server CPU--> µs")
    assert_equal "142,723<!--http / Hello, 64 connections / gyre / requests-->", filled("9<!--http / Hello, 64 connections / gyre / requests-->")
    more = "<!--http / Hello, 64 connections, more / gyre / server-->"
    assert_equal "7.72#{more}", filled("0.00#{more}")
  end

  def test_a_mark_of_several_rows_has_the_lowest_and_the_highest
    mark = "<!--http / Hello, 64 connections / gyre + puma / server CPU-->"
    assert_equal "7–33#{mark}", filled("1#{mark}")
    assert_equal "7.0–32.9#{mark}", filled("1.0–2.0#{mark}")
    most = "<!--http / Hello, 64 connections / most of gyre + puma / server CPU-->"
    assert_equal "33#{most}", filled("1#{most}")
  end

  def test_a_mark_of_the_ruby_has_its_version
    assert_equal "Ruby 3.4<!--http / Ruby-->", filled("Ruby 4.0<!--http / Ruby-->")
  end

  def test_a_marked_table_has_a_mark_for_each_column
    marks = "<!--figures\nhttp / Hello, 64 connections / requests\nhttp / Hello, 64 connections / server CPU\n-->\n"
    assert_equal "#{marks}| | a | b |\n|---|---|---|\n| puma | 30,436 | 32.9 |\n| gyre | – | 7.0 |\n",
                 filled("#{marks}| | a | b |\n|---|---|---|\n| puma | 0 | 0.0 |\n| gyre | – | 0.0 |\n")
  end

  def test_what_is_not_in_the_results_is_an_error
    ["Hello, 63 / gyre / server CPU", "Hello, 64 connections / iodine / server CPU", "Hello, 64 connections / gyre / PSS",
     "Hello, 64 connections / falcon / server CPU", "Hello, 64 connections / gyre"].each do |place|
      assert_raises(Bench::Problem, place) { filled("1<!--http / #{place}-->") }
    end
  end

  def test_a_measurement_without_a_mark_is_found
    marked = "7.0<!--http / Hello / gyre / server CPU--> µs"
    assert_equal ["3.5"], Bench::Figures.new("#{marked}, puma 3.5: [http](bench/results/http.md)\n\nin 0.3 s").unmarked
    assert_equal ["500"], Bench::Figures.new("#{marked} and 500 µs, `5 µs`\n\n```\n7 µs\n```\n").unmarked
  end

  private

  def filled(text) = Bench::Figures.new(text, ->(_name) { RESULTS }).filled
end
