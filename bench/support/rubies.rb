# frozen_string_literal: true

# Compares the results of the Ruby that is quoted with those of another: Gyre row by row, its peers
# beside it. `rake docs:figures` writes bench/results/rubies.md; its reasons stand in
# bench/notes/rubies.md.

require_relative "markdown"
require_relative "result_file"
require_relative "results"

module Bench
  # Two Rubies.
  class Rubies
    OTHER_RUBY = "3.4"
    NAMES = %w[http scheduler loop net memcached log].freeze
    # Slower than this is listed.
    LIMIT = 1.03
    # The column that decides, the first of these that a table has.
    DECIDING = [/CPU, µs/, /µs/, /KB a connection/, %r{/s\b}, /seconds/].freeze
    RATE = %r{/s\b}.freeze
    RATIO = / ÷ /.freeze
    OURS = /\Agyre/i.freeze

    # what: file, table, row; before, after: figures of the other Ruby and the quoted one; ratio: of
    # their costs; peers: the median of the peers' ratios in the same table
    Row = Struct.new(:name, :table, :row, :column, :before, :after, :ratio, :peers) do
      def slower? = ratio > LIMIT

      # Returns whether some round of the one was within the other's.
      def overlap? = after.low <= before.high && before.low <= after.high
    end

    def self.path = File.join(ResultFile::FOLDER, "rubies.md")

    def self.load
      pairs = NAMES.to_h do |name|
        [name, [OTHER_RUBY, ResultFile::QUOTED_RUBY].map { |ruby| ResultFile.of(name, ruby) }]
      end
      new(pairs.select { |_, files| files.all? })
    end

    # Writes the comparison, where there is one.
    def self.write
      rubies = load
      File.write(path, rubies.text) unless rubies.empty?
    end

    def initialize(pairs)
      @pairs = pairs
    end

    def empty? = @pairs.empty?

    def rows
      @rows ||= @pairs.flat_map do |name, (before, after)|
        after.tables.flat_map do |table|
          other = before.tables.find { |one| one.heading == table.heading && one.columns == table.columns }
          other ? compare(name, other, table) : []
        end
      end
    end

    def text
      [head, *@pairs.keys.map { |name| section(name) }, slower, notes].compact.join("\n\n") << "\n"
    end

    private

    # A table has Gyre in its rows, or, of micro-benchmarks, in its columns.
    def compare(name, before, after)
      columns = after.columns.grep_v(RATIO)
      return compare_columns(name, before, after, columns) if columns.any?(OURS)

      deciding = DECIDING.filter_map { |pattern| columns.grep(pattern).first }.first or return []
      cells = after.rows.keys.filter_map { |row| pair(name, before, after, row, deciding, deciding) }
      with_peers(cells, &:row)
    end

    def compare_columns(name, before, after, columns)
      after.rows.keys.flat_map do |row|
        cells = columns.filter_map { |column| pair(name, before, after, row, column, "µs") }
        with_peers(cells, &:column).each { |cell| cell.row = "#{row}, #{cell.column}" }
      end
    end

    def pair(name, before, after, row, column, unit)
      old, new = [before, after].map { |table| table.rows[row] && ResultFile::Figure.parse(table.rows[row][table.columns.index(column)]) }
      return unless old && new && [old, new].all? { |figure| figure.value.positive? }

      ratio = unit.match?(RATE) ? old.value / new.value : new.value / old.value
      Row.new(name, after.heading, row, column, old, new, ratio)
    end

    def with_peers(cells)
      ours, peers = cells.partition { |cell| OURS.match?(yield(cell)) }
      ours.each { |cell| cell.peers = Results.median(peers.map(&:ratio)) }
    end

    def head
      old, new = @pairs.values.first.map { |file| file.text[/^- (Ruby \S+(?: \+ YJIT)?)/, 1] }
      <<~MARKDOWN.chomp
        # Gyre on two Rubies

        Written by `rake docs:figures` from the results of #{new} and #{old}. The ratio is that of the costs, so more than 1 is slower on
        the newer Ruby; *peers* is the median of the same ratio of whatever else the table has.
      MARKDOWN
    end

    def section(name)
      shown = rows.select { |row| row.name == name }.map do |row|
        ratios = [row.ratio, row.peers].map { |ratio| ratio ? format("%.2f", ratio) : "–" }
        ["#{row.table}: #{row.row}", row.column, number(row.before), number(row.after), *ratios]
      end
      "## #{name}\n\n#{Markdown.table(['', 'figure', OTHER_RUBY, ResultFile::QUOTED_RUBY, 'ratio', 'peers'], shown)}"
    end

    def slower
      lines = rows.select(&:slower?).sort_by { |row| -row.ratio }.map do |row|
        spread = row.overlap? ? ", though the rounds overlap" : ""
        "- #{row.name}, #{row.table}: #{row.row}: #{format('%.0f', (row.ratio - 1) * 100)} %#{spread}"
      end
      "## Slower or larger by more than #{((LIMIT - 1) * 100).round} %\n\n#{lines.empty? ? 'Nothing.' : lines.join("\n")}"
    end

    def notes
      path = File.join(ROOT, "bench/notes/rubies.md")
      File.read(path).strip if File.exist?(path)
    end

    def number(figure)
      Markdown.number(figure.value, figure.decimals)
    end
  end
end
