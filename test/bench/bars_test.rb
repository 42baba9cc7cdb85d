# frozen_string_literal: true

# README's picture is that of the results, and reads in light and dark.
require "test_helper"
require_relative "../../bench/support/bars"

class BenchBarsTest < Minitest::Test
  RESULTS = Bench::ResultFile.new(<<~MARKDOWN)
    - Ruby 4.0.5p0 + YJIT

    ## Hello, 64 connections

    | server | requests/s | server CPU, µs a request |
    | --- | ---: | ---: |
    | nginx | 140,000 | 6.71 (6.19–6.93) |
    | gyre | 142,000 | 7.00 |
    | puma | 30,000 | 28.00 |

    ## Memory of an idle keep-alive connection (10000 open)

    | server | RSS, KB a connection |
    | --- | ---: |
    | gyre | 0.17 |
    | puma | 1,234.50 |
  MARKDOWN

  def test_the_picture_is_that_of_the_results
    assert_equal File.read(Bench::ResultFile.path("http", Bench::ResultFile::QUOTED_RUBY)).then { |text| drawn(Bench::ResultFile.new(text)) },
                 File.read(Bench::Bars.path), "run rake docs:figures"
    assert_includes File.read("#{ROOT}/README.md"), "](bench/results/http.svg)"
  end

  def test_each_server_has_a_bar_as_long_as_its_figure
    bars = picture.scan(/<rect class="(bar[^"]*)" .* width="([\d.]+)"/).map { |kind, width| [kind, width.to_f] }
    assert_equal ["bar", "bar ours", "bar", "bar ours", "bar"], bars.map(&:first)
    assert_in_delta 4, bars[2].last / bars[1].last, 0.01
    assert_in_delta Bench::Bars::LEAST, bars[3].last
    assert_equal bars[2].last, bars[4].last
  end

  def test_texts_name_servers_and_figures
    shown = texts.map(&:last)
    assert_equal ["Server CPU a request, µs", "nginx", "6.7", "Gyre", "7.0", "Puma", "28.0", "Memory of an idle connection, KB", "Gyre", "0.17",
                  "Puma", "1,234.50"], shown[0..-2]
    assert_match(/Ruby 4\.0 with YJIT/, shown.last)
  end

  def test_nothing_is_outside_of_the_picture
    texts.each { |left, text| assert_operator left.to_f + (text.size * 6.5), :<=, Bench::Bars::WIDTH, text }
  end

  def test_colours_follow_the_readers_scheme
    style = picture[%r{<style>(.*)</style>}m, 1]
    assert_match(/@media \(prefers-color-scheme: dark\)/, style)
    light, dark = style.split("@media")
    %w[ground text note bar ours].each { |name| refute_equal light[/#{name} \{ fill: (#\h+)/, 1], dark[/#{name} \{ fill: (#\h+)/, 1], name }
  end

  private

  def picture = drawn(RESULTS)
  def texts = picture.scan(%r{<text class="[^"]+" x="([\d.]+)".*?>(.*?)</text>})
  def drawn(results) = Bench::Bars.new(results).svg
end
