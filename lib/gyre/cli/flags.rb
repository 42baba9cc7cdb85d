# frozen_string_literal: true

# Flags of the commands of `gyre`: OptionParser, but a flag counts only when it is written out exactly. OptionParser alone takes
# `-w 4` for --write-timeout if nothing else begins with w. A flag that is not known is refused with the nearest one.
# Gyre::Web::Options and the commands of `gyre log` declare theirs here. It prints nothing and never exits by itself.

require "optparse"
require "did_you_mean"
require "gyre/cli/command_errors"
require "gyre/version"

module Gyre
  # One command's flags.
  #
  #   flags = Gyre::Flags.new("Usage: tool [options] FILE") { |on| on.on("-p", "--port PORT", "the port") { |port| … } }
  #   flags.read(["-p", "80", "app.rb"]) # => ["app.rb"]
  class Flags
    # OptionParser completes what is abbreviated in one method; this one completes nothing. (Its own require_exact, before Ruby
    # 3.2, refuses `--port=80` and fails on flags without a long form.)
    class Exact < OptionParser
      private

      def complete(kind, name, *)
        switch = search(kind, name) or raise InvalidOption, name
        [switch, name]
      end
    end
    private_constant :Exact

    # @param banner [String] what the help begins with
    # @param width [Integer] of the help's left column
    # @param hints [Hash{String => String}] flags that other programs have, and what to do here instead
    # @yieldparam flags [OptionParser]
    def initialize(banner, width: 29, hints: {}, &declare)
      @hints = hints
      @parser = Exact.new(banner, width, "  ", &declare)
      @parser.program_name = "gyre" # for --version, where the command has none of its own
      @parser.version = VERSION
    end

    # @param arguments [Array<String>] left as they are
    # @return [Array<String>] what is no flag
    # @raise [UsageError]
    def read(arguments)
      refuse_single_dashes(arguments)
      @parser.parse(arguments)
    rescue OptionParser::InvalidOption => error
      raise UsageError, unknown(error.args.first)
    rescue OptionParser::ParseError => error
      raise UsageError, "#{error.args.join(" ")}: #{error.reason}"
    end

    # @return [String]
    def help
      @parser.help
    end

    private

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

    # What it abbreviates, if that is one flag only.
    def beginning(name)
      candidates = names.select { |each| each.start_with?(name) }
      candidates.first if name.start_with?("--") && candidates.size == 1
    end

    def names
      @names ||= @parser.candidate("-").grep(/\A--\w/).map { |name| name[/\A[\w-]+/] }
    end
  end
end
