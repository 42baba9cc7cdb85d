# frozen_string_literal: true

# Flags of the commands of `gyre`: OptionParser, but a flag counts only when it is written out
# exactly (OptionParser alone takes `-w 4` for --write-timeout if nothing else begins with w), and
# an unknown flag is refused with the nearest one. Each command declares its flags here. It prints
# nothing and never exits by itself.

require "optparse"
require "did_you_mean"
require "gyre/cli/errors"

module Gyre
  module CLI
    # One command's flags, --help and --version among them.
    #
    #   flags = Gyre::CLI::Flags.new("Usage: tool [options] FILE") { |on| on.on("-p", "--port PORT", "the port") { |port| … } }
    #   flags.read(["-p", "80", "app.rb"]) # => ["app.rb"]
    class Flags
      # OptionParser completes abbreviations in one method; this one completes nothing. (Its own
      # require_exact, before Ruby 3.2, refuses `--port=80` and fails on flags without a long form.)
      class Exact < OptionParser
        private

        def complete(kind, name, *)
          switch = search(kind, name) or raise InvalidOption, name
          [switch, name]
        end
      end
      private_constant :Exact

      # @return [Symbol, nil] what the command is to do instead of its work: :help, :version, or
      #   what {#ask} was given
      attr_reader :asked

      # @param banner [String] what the help begins with
      # @param width [Integer] of the help's left column
      # @param hints [Hash{String => String}] flags that other programs have, and what to do here
      #   instead
      # @param aliases [Hash{String => String}] long flags that stand for others, and are not in the
      #   help
      # @param dash [Array<String>] flags whose optional argument may be a dash alone
      # @param help [Array<String>] the flags that ask for help
      # @param footer [String, nil] what the help ends with
      # @yieldparam flags [self]
      def initialize(banner, width: 29, hints: {}, aliases: {}, dash: [], help: ["--help"], footer: nil)
        @hints = hints
        @aliases = aliases
        @dash = dash
        @parser = Exact.new(banner, width, "  ")
        yield self
        on(*help, "print this text") { ask(:help) }
        on("-v", "--version", "print Gyre's version") { ask(:version) }
        separator(footer) if footer
      end

      # Declares a flag, as OptionParser#on does. An ArgumentError of the block is the user's
      # mistake, and is reported with the flag.
      #
      # @return [void]
      def on(*words, &block)
        name = (words.grep(/\A--/).first || words.first)[/\A[\w-]+/]
        @parser.on(*words) do |value|
          block.call(value)
        rescue ArgumentError => error
          raise UsageError, "#{name}: #{error.message}"
        end
      end

      # @param text [String] a heading in the help
      # @return [void]
      def separator(text) = @parser.separator(text)

      # @param what [Symbol] what the command is to do instead of its work
      # @return [void]
      def ask(what)
        @asked = what
      end

      # @param arguments [Array<String>] left as they are
      # @return [Array<String>] the arguments that are no flags
      # @raise [UsageError]
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

      # @return [String]
      def help = @parser.help

      private

      def refuse_broken_text(arguments)
        broken = arguments.find { |word| !word.valid_encoding? } or return
        raise UsageError, "#{broken.scrub("?").inspect} is no valid #{broken.encoding}, the encoding of this terminal (see `locale`): convert it"
      end

      # In Ruby 3.1's OptionParser a lone dash is never an optional argument.
      def attach_dashes(words)
        words.each_with_object([]) do |word, all|
          next all << word unless word == "-" && @dash.include?(all.last)

          all[-1] += all.last.start_with?("--") ? "=-" : "-"
        end
      end

      # `-port 80` would be -p with the value "ort".
      def refuse_single_dashes(arguments)
        before_end = arguments.take_while { |word| word != "--" }
        word = before_end.find { |each| each.match?(/\A-\w/) && names.include?("-#{each[/\A[^=]+/]}") }
        raise UsageError, "#{word}: there is no such flag; did you mean -#{word}?" if word
      end

      def unknown(flag)
        name = flag[/\A(?:--[^=]+|-.)/]
        near = @hints[name] || suggestion(name)
        "#{flag}: there is no such flag#{"; #{near}" if near}"
      end

      def suggestion(name)
        near = beginning(name) || DidYouMean::SpellChecker.new(dictionary: names).correct(name).first
        "did you mean #{near}?" if near
      end

      # The flag that is abbreviated, if it is one only.
      def beginning(name)
        candidates = names.select { |each| each.start_with?(name) }
        candidates.first if name.start_with?("--") && candidates.size == 1
      end

      def names
        @names ||= @parser.candidate("-").grep(/\A--\w/).map { |name| name[/\A[\w-]+/] }
      end
    end
  end
end
