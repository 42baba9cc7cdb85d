# frozen_string_literal: true

# Parses commands' flags by their exact names only. (OptionParser alone would take `-w 4` for
# --write-timeout.) Refuses an unknown flag and suggests the nearest one. Never prints or exits.

require "optparse"
require "gyre/errors"
require "gyre/settings"

module Gyre
  module CLI
    # Checks a flag's duration.
    SECONDS = Settings.row(:seconds, :seconds, "a time")

    # A command's flags, with --help and --version.
    #
    #   flags = Gyre::CLI::Flags.new("Usage: tool [options] FILE") { |on| on.on("-p", "--port PORT", "the port") { |port| … } }
    #   flags.read(["-p", "80", "app.rb"]) # => ["app.rb"]
    class Flags
      # Columns of the flags, and of the rest of a line of 80 columns.
      WIDTH = 29
      TEXT_WIDTH = 80 - WIDTH - 3

      # Completes no abbreviations. (Before Ruby 3.2, require_exact refuses `--port=80` and fails
      # for a flag that has no long form.)
      class Exact < OptionParser
        private

        def complete(kind, name, *)
          switch = search(kind, name) or raise InvalidOption, name
          [switch, name]
        end
      end

      attr_reader :asked # :help, :version or an argument of {#ask}: to be done instead of the command's work

      # `hints`: advice for other programs' flags; `aliases`: hidden names of long flags; `dash`:
      # flags whose argument may be a bare dash.
      def initialize(banner, hints: {}, aliases: {}, dash: [], help: ["--help"], footer: nil)
        @hints = hints
        @aliases = aliases
        @dash = dash
        @parser = Exact.new(banner, WIDTH, "  ")
        yield self
        on(*help, "print this text") { ask(:help) }
        on("-v", "--version", "print Gyre's version") { ask(:version) }
        separator(footer) if footer
      end

      # Declares a flag like OptionParser#on. Turns the block's ArgumentError into a UsageError.
      def on(*words, &block)
        flags, texts = words.partition { |word| !word.is_a?(String) || word.start_with?("-") }
        name = (flags.grep(/\A--/).first || flags.first)[/\A[\w-]+/]
        @parser.on(*flags, *texts.join(" ").scan(/\S.{0,#{TEXT_WIDTH - 1}}(?=\s|\z)/o)) do |value|
          block.call(value)
        rescue ArgumentError => error
          raise UsageError, "#{name}: #{error.message}"
        end
      end

      # Declares a table's flags under the headings of its groups. Stores their values in the Hash
      # `values`. A block may change a value, or return nil to drop it.
      def table(table, values)
        table.groups.each do |heading, rows|
          next unless heading

          separator("\n#{heading}:")
          rows.each do |row|
            on(*words(row)) do |value|
              value = yield(row, value) if block_given?
              next if value.nil?

              value = row.check(value)
              values[row.name] = row.list ? [*values[row.name], *value] : value
            end
          end
        end
      end

      def separator(text) = @parser.separator(text)

      # Makes {#asked} return `what`, which is then done instead of the command's work.
      def ask(what) = @asked = what

      def read(arguments)
        refuse_broken_text(arguments)
        refuse_single_dashes(arguments)
        words = arguments.map { |word| word.sub(/\A--[\w-]+/) { |name| @aliases.fetch(name, name) } }
        @parser.parse(attach_dashes(words))
      rescue OptionParser::InvalidOption => error
        raise UsageError, unknown(error.args.first)
      rescue OptionParser::ParseError => error
        raise UsageError, "#{error.args.join(" ")}: #{error.reason}"
      end

      def help = @parser.help

      private

      # Returns the arguments of {#on} for a row; a Boolean row also has a flag --no-….
      def words(row)
        flag = row.boolean? ? "--[no-]#{row.flag.delete_prefix("--")}" : [row.flag, row.argument].compact.join(" ")
        [*row.short, flag, row.text, *("(#{row.default_text})" if row.default_text)]
      end

      def refuse_broken_text(arguments)
        broken = arguments.find { |word| !word.valid_encoding? } or return
        raise UsageError, "#{broken.scrub("?").inspect} is not valid #{broken.encoding}, the encoding of this terminal (see `locale`): convert it"
      end

      # Attaches a lone dash to its flag: Ruby 3.1 takes no dash as an optional argument.
      def attach_dashes(words)
        words.each_with_object([]) do |word, all|
          next all << word unless word == "-" && @dash.include?(all.last)

          all[-1] += all.last.start_with?("--") ? "=-" : "-"
        end
      end

      # Refuses `-port 80`, which OptionParser would read as -p "ort".
      def refuse_single_dashes(arguments)
        before_end = arguments.take_while { |word| word != "--" }
        word = before_end.find { |each| each.match?(/\A-\w/) && names.include?("-#{each[/\A[^=]+/]}") }
        raise UsageError, "#{word}: unknown flag; did you mean -#{word}?" if word
      end

      def unknown(flag)
        name = flag[/\A(?:--[^=]+|-.)/]
        abbreviated = names.select { |each| name.start_with?("--") && each.start_with?(name) }
        near = @hints[name] || (abbreviated.one? ? "did you mean #{abbreviated.first}?" : Settings.nearest(name, names))
        ["#{flag}: unknown flag", near].compact.join("; ")
      end

      def names = @names ||= @parser.candidate("-").grep(/\A--\w/).map { |name| name[/\A[\w-]+/] }
    end
  end
end
