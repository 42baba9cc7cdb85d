# frozen_string_literal: true

# Figures of README and the guides: taken from the results files, named by marks beside them. `rake
# docs:figures` writes them, a test finds what is out of date. Two kinds of marks:
#
#   7.0<!--http / Hello, 64 connections / gyre / server CPU-->       file / table / row / column: beginnings, without backticks
#   4.0<!--http / Ruby-->                                            the Ruby of that file
#
#   <!--figures                                                      before a table: a line for each column;
#   memcached / 100,000 each of set, get and delete / seconds        rows are found by their first cells
#   -->
#
# "a + b" as a row has the figures of both, lowest–highest where they differ, and "most of a + b"
# the highest. A figure keeps its number of decimals.

require_relative "markdown"
require_relative "result_file"

module Bench
  # Markdown text with figures.
  class Figures
    FILES = %w[README.md docs/*.md].freeze

    NUMBER = /\d[\d,]*(?:\.\d+)?/.freeze
    INLINE = /(?<shown>(?:#{NUMBER}–)?#{NUMBER})<!--(?<mark>[^\n]+?)-->/.freeze
    TABLE = /^<!--figures\n(?<marks>(?:.+\n)+?)-->\n(?<table>(?:\|.*\n)+)/.freeze
    MOST = "most of "
    # Read as measurements: µs and parts of a KB anywhere, all decimals beside a link to results.
    LINK = %r{\]\([^)]*bench/results/}.freeze
    UNIT = /(?<![\w.,])(?:#{NUMBER}(?= µs)|\d+\.\d+(?= KB))/.freeze
    DECIMAL = /(?<![\w.,])\d+\.\d+(?![\w.])/.freeze

    def self.files
      Dir.chdir(ROOT) { Dir[*FILES].sort }.map { |path| File.join(ROOT, path) }
    end

    def initialize(text, read = nil)
      @text = text
      files = {}
      @read = read || ->(name) { files[name] ||= ResultFile.new(File.read(ResultFile.path(name, ResultFile::QUOTED_RUBY))) }
    end

    # Returns the text with the figures of the results.
    def filled
      @text.gsub(TABLE) { "<!--figures\n#{$~[:marks]}-->\n#{table($~[:marks].lines(chomp: true), $~[:table])}" }
           .gsub(INLINE) { "#{inline($~[:mark], $~[:shown])}<!--#{$~[:mark]}-->" }
    end

    def unmarked
      plain = @text.gsub(/^```.*?^```/m, "").gsub(TABLE, "")
      plain.split(/\n{2,}/).flat_map do |block|
        bare = block.gsub(INLINE, "").gsub(/`[^`\n]*`/, "")
        bare.scan(block.match?(LINK) ? Regexp.union(UNIT, DECIMAL) : UNIT)
      end
    end

    private

    def inline(mark, shown)
      name, *place = mark.split(" / ")
      return @read.call(name).ruby if place == ["Ruby"]

      heading, rows, column = place
      raise Problem, "#{mark}: a mark has a file, a table, a row and a column" unless column && place.size == 3

      values = rows.delete_prefix(MOST).split(" + ").map { |row| @read.call(name).figure(heading, row, column).value }
      (rows.start_with?(MOST) ? [values.max] : values.minmax).map { |value| show(value, shown) }.uniq.join("–")
    end

    def table(marks, lines)
      lines.lines.each_with_index.map do |line, index|
        next line if index < 2

        label, *cells = line.strip.delete_prefix("|").delete_suffix("|").split("|").map(&:strip)
        "| #{[label, *cells.zip(marks).map { |shown, mark| cell(label, shown, mark) }].join(' | ')} |\n"
      end.join
    end

    def cell(label, shown, mark)
      name, heading, column = mark.split(" / ")
      return shown if shown == "–"

      show(@read.call(name).figure(heading, label, column).value, shown)
    end

    def show(value, shown)
      decimals = shown[/\.(\d+)\z/, 1].to_s.size
      Markdown.number(value.round(decimals), decimals)
    end
  end
end
