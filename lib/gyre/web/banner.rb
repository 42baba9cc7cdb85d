# frozen_string_literal: true

# What a server prints when it starts: version, engine, where it listens. The command line and the
# Rackup handler print it.

require "gyre/loop"
require "gyre/version"

module Gyre
  module Web
    # A few lines of text.
    module Banner
      # @param server [Gyre::Web::Server] it listens
      # @param environment [String, nil]
      # @param workers [Integer, nil] processes beside this one
      # @return [String] without the last newline
      def self.text(server, environment, workers: nil)
        [
          "Gyre #{VERSION} on #{RUBY_ENGINE} #{RUBY_VERSION}#{" with YJIT" if yjit?}",
          "  #{Loop.explain.lines.first.chomp}",
          *server.urls.map { |url| "  listening on #{url}" },
          *server.metrics_urls.map { |url| "  metrics on #{url}#{"/metrics" unless url.start_with?("unix:")}" },
          "  #{"environment #{environment}, " if environment}process #{Process.pid}#{" with #{workers} workers" if workers}",
          "Use Ctrl-C to stop"
        ].join("\n")
      end

      def self.yjit? = defined?(RubyVM::YJIT) && RubyVM::YJIT.enabled?
      private_class_method :yjit?
    end
  end
end
