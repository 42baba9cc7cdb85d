# frozen_string_literal: true

# What the commands of `gyre log` share: reading flags, and their errors. Each has a module of its own for what it does.
# It prints nothing.

require "optparse"
require "did_you_mean"
require "gyre/errors"

module Gyre
  module LogCommand
    # The command line cannot be understood; the message is for its author.
    class UsageError < Error; end

    # It cannot begin, or go on; the message says what to do.
    class StartError < Error; end

    # Flags in, a Hash out.
    class Usage
      # @return [Array<String>] what is no flag
      attr_reader :rest

      # @param arguments [Array<String>]
      # @param banner [String]
      # @yieldparam flags [OptionParser] for what the command knows
      # @raise [UsageError]
      def initialize(arguments, banner, &declare)
        @parser = OptionParser.new(banner, 29, "  ", &declare)
        @rest = @parser.parse(arguments)
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

      def unknown(flag)
        names = @parser.candidate("-").grep(/\A--\w/).map { |name| name[/\A[\w-]+/] }
        near = DidYouMean::SpellChecker.new(dictionary: names).correct(flag[/\A[^=]+/]).first
        "#{flag}: there is no such flag#{"; did you mean #{near}?" if near}"
      end
    end
  end
end
