# frozen_string_literal: true

require "test_helper"
require "gyre/cli/terminal/figures"

class CLIFiguresTest < Minitest::Test
  Figures = Gyre::CLI::Figures

  def test_thousands_are_separated
    assert_equal %w[0 999 1,234,567], [nil, 999, 1_234_567].map { |number| Figures.count(number) }
    assert_equal %w[0.0 99.9 12,346], [0.0, 99.94, 12_345.6].map { |number| Figures.rate(number) }
  end

  def test_bytes_are_in_powers_of_1024
    assert_equal ["0 B", "999 B", "1 KB", "1.5 KB", "20 MB", "5 GB", "3000 TB"],
      [nil, 999, 1024, 1536, 20 << 20, 5 << 30, 3000 << 40].map { |number| Figures.bytes(number) }
  end

  def test_times_have_one_unit
    assert_equal ["100 us", "1.5 ms", "500 ms", "1.5 s", "75 s", "100 s", "2 min", "26 h", "4 d"],
      [0.0001, 0.0015, 0.5, 1.5, 75, 100, 150, 93_784, 4 * 86_400].map { |seconds| Figures.duration(seconds) }
  end
end
