# frozen_string_literal: true

# `gyre log [serve]`: configuration and flags in, a running server out. Gyre::LogCommand starts it. Nothing is opened before
# everything that is written has been understood; the serving itself is Gyre::Log::Server's.

require "gyre/version"
require "gyre/log/configuration"
require "gyre/log_command/pidfile"
require "gyre/log_command/serve_options"

module Gyre
  module LogCommand
    # One start of the server.
    class Serve
      # @param out [IO]
      # @param err [IO] takes what the server says about itself, for standard output may be a log
      # @param input [IO] is not read
      def initialize(out:, err:, input: nil)
        @out = out
        @err = err
        @input = input
      end

      # @param arguments [Array<String>]
      # @return [Integer] the exit status
      # @raise [UsageError, StartError]
      def start(arguments)
        options = ServeOptions.new(arguments)
        case options.show
        when :help    then @out.puts(options.help)
        when :version then @out.puts("gyre #{VERSION}")
        else
          configuration = configure(options)
          options.show == :check ? @out.puts("#{options.path || "the configuration"} is right") : serve(configuration)
        end
        DONE
      end

      private

      # @return [Gyre::Log::Configuration]
      def configure(options)
        configuration = options.path ? Log::Configuration.load(options.path) : Log::Configuration.new
        key = ENV["GYRE_LOG_KEY"].to_s
        configuration = configuration.merge(key: key) unless key.empty?
        configuration = configuration.merge(options.values)
        configuration.settings
        (configuration.notices + options.notices).each { |notice| @err.puts("gyre log: #{notice}") }
        configuration
      rescue Log::Configuration::Invalid => error
        raise StartError, error.message if error.mistakes.one?

        raise StartError, "#{error.mistakes.size} mistakes; nothing was started:\n#{error.message}"
      end

      def serve(configuration)
        raise StartError, "the server is not there yet (#{configuration.addresses.join(" ")})"
      end
    end
  end
end
