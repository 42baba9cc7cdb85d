# frozen_string_literal: true

# Reads a results file again: its Ruby, its tables, the figures in their cells. Writes nothing. The
# guides' figures (figures.rb), the picture (bars.rb) and the comparison of Rubies (rubies.rb) are
# made from it.

require_relative "setup"

module Bench
  # One of bench/results/*.md.
  class ResultFile
    FOLDER = File.join(ROOT, "bench/results")
    # Its results lie in the folder itself and are quoted; each other Ruby has a folder below.
    QUOTED_RUBY = "4.0"

    NUMBER = /-?\d[\d,]*(?:\.\d+)?/.freeze
    CELL = /\A(#{NUMBER})(?: s)?(?: \((#{NUMBER})–(#{NUMBER})\))?\z/.freeze

    # A cell: the median and the lowest and highest round.
    Figure = Struct.new(:value, :low, :high, :decimals) do
      def self.parse(text)
        match = ResultFile::CELL.match(text) or return
        value, low, high = match.captures.map { |number| number&.delete(",")&.to_f }
        new(value, low || value, high || value, match[1][/\.(\d+)/, 1].to_s.size)
      end
    end

    # heading: what stands above it; columns: their headings; rows: first cell => other cells
    Table = Struct.new(:heading, :columns, :rows)

    # Returns where the results lie.
    def self.path(name, ruby = RUBY_VERSION)
      folder = quoted?(ruby) ? FOLDER : File.join(FOLDER, "ruby-#{ruby[/\A\d+\.\d+/]}")
      File.join(folder, "#{name}.md")
    end

    # Returns whether its figures are those of README and the guides.
    def self.quoted?(ruby) = ruby[/\A\d+\.\d+/] == QUOTED_RUBY

    # Returns the results of a bench on one Ruby; nil where there are none.
    def self.of(name, ruby = QUOTED_RUBY)
      path = path(name, ruby)
      file = new(File.read(path)) if File.exist?(path)
      file if file&.ruby == ruby
    end

    attr_reader :text

    def initialize(text)
      @text = text
    end

    # Returns the Ruby that was measured: "4.0".
    def ruby
      @text[/\bRuby (\d+\.\d+)/, 1] or raise Problem, "the results name no Ruby"
    end

    def tables
      @tables ||= @text.scan(/^\#+ ([^\n]+)\n(.*?)(?=^\#+ |\z)/m).flat_map do |heading, body|
        body.scan(/^\|.+\n\| ?-.*\n(?:\|.*\n?)*/).map { |lines| table(heading, lines) }
      end
    end

    def figure(heading, row, column)
      table = find(tables, heading, "table", &:heading)
      cells = table.rows.fetch(find(table.rows.keys, row, "row"))
      text = cells[table.columns.index(find(table.columns, column, "column"))]
      Figure.parse(text) or raise Problem, "#{heading} / #{row} / #{column} was not measured: #{text}"
    end

    private

    def table(heading, lines)
      columns, _, *rows = lines.lines.map { |line| line.strip.delete_prefix("|").delete_suffix("|").split(" | ", -1).map(&:strip) }
      Table.new(heading, columns.drop(1), rows.to_h { |first, *cells| [first, cells] })
    end

    # The one of that text, else the first that begins so; backticks aside.
    def find(list, name, kind, &text)
      plain = list.map { |one| (text ? text.call(one) : one).delete("`") }
      index = plain.index(name) || plain.index { |one| one.start_with?(name) }
      index ? list[index] : raise(Problem, "the results have no #{kind} #{name.inspect}")
    end
  end
end
