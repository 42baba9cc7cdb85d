# frozen_string_literal: true

# Flags of the commands of `gyre`: OptionParser, which accepts only exact names here (alone it takes
# `-w 4` for --write-timeout if nothing else begins with w); an unknown flag is refused with the
# nearest one. Each command declares its flags here. Prints nothing and never exits by itself.

require "optparse"
require "gyre/errors"
require "gyre/settings"

module Gyre
  module CLI
    # A duration for a flag.
    SECONDS = Settings.row(:seconds, :seconds, "a time")

    # One command's flags, --help and --version among them.
    #
    #   flags = Gyre::CLI::Flags.new("Usage: tool [options] FILE") { |on| on.on("-p", "--port PORT", "the port") { |port| … } }
    #   flags.read(["-p", "80", "app.rb"]) # => ["app.rb"]
    class Flags
      # Overrides OptionParser's method that completes abbreviations. (Its require_exact, before
      # Ruby 3.2, refuses `--port=80` and fails on flags without a long form.)
      class Exact < OptionParser
        private

        def complete(kind, name, *)
          switch = search(kind, name) or raise InvalidOption, name
          [switch, name]
        end
      end
      private_constant :Exact

      attr_reader :asked # :help, :version or an argument of {#ask}: to be done instead of the command's work

      # `hints` maps other programs' flags to advice, `aliases` maps long flags to others (hidden in
      # the help); `dash` lists flags that take a bare dash as argument.
      def initialize(banner, width: 29, columns: 80, hints: {}, aliases: {}, dash: [], help: ["--help"], footer: nil)
        @hints = hints
        @aliases = aliases
        @dash = dash
        @text_width = columns - width - 4
        @parser = Exact.new(banner, width, "  ")
        yield self
        on(*help, "print this text") { ask(:help) }
        on("-v", "--version", "print Gyre's version") { ask(:version) }
        separator(footer) if footer
      end

      # Declares a flag, as OptionParser#on does. An ArgumentError of the block is reported with the
      # flag, as the user's mistake.
      def on(*words, &block)
        name = (words.grep(/\A--/).first || words.first)[/\A[\w-]+/]
        @parser.on(*words) do |value|
          block.call(value)
        rescue ArgumentError => error
          raise UsageError, "#{name}: #{error.message}"
        end
      end

      # Declares flags for a table's rows, below their groups' headings. Stores values in the Hash;
      # an optional block may change a row's value, or return nil for none.
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

      # Makes the command run `what` instead of its work.
      def ask(what)
        @asked = what
      end

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

      # A flag without an argument sets true; for a Boolean row --no- sets false.
      def words(row)
        flag = row.boolean? ? "--[no-]#{row.flag.delete_prefix("--")}" : [row.flag, row.argument].compact.join(" ")
        text = [row.text, ("(#{row.default_text})" if row.default_text)].compact.join(" ")
        [*row.short, flag, *text.scan(/\S.{0,#{@text_width}}(?=\s|\z)/)]
      end

      def refuse_broken_text(arguments)
        broken = arguments.find { |word| !word.valid_encoding? } or return
        raise UsageError, "#{broken.scrub("?").inspect} is not valid #{broken.encoding}, the encoding of this terminal (see `locale`): convert it"
      end

      # Ruby 3.1's OptionParser never takes a lone dash as an optional argument.
      def attach_dashes(words)
        words.each_with_object([]) do |word, all|
          next all << word unless word == "-" && @dash.include?(all.last)

          all[-1] += all.last.start_with?("--") ? "=-" : "-"
        end
      end

      # `-port 80` would mean -p with the value "ort".
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

      def names
        @names ||= @parser.candidate("-").grep(/\A--\w/).map { |name| name[/\A[\w-]+/] }
      end
    end
  end
end
