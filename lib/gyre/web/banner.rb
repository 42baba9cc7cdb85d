# frozen_string_literal: true

# The text that `gyre serve` and the Rackup handler print at the start: version, engine, addresses.

require "gyre/loop"
require "gyre/version"

module Gyre
  module Web
    module Banner
      # `workers`: the number of worker processes, or nil.
      def self.text(server, environment, workers: nil)
        [
          "Gyre #{VERSION} on #{RUBY_ENGINE} #{RUBY_VERSION}#{" with YJIT" if yjit?}",
          "  #{Loop.explain.lines.first.chomp}",
          *server.endpoints.map { |endpoint| "  listening on #{endpoint.url}#{for_proxies(endpoint)}" },
          *server.metrics_urls.map { |url| "  metrics on #{url}#{"/metrics" unless url.start_with?("unix:")}" },
          "  #{"environment #{environment}, " if environment}process #{Process.pid}#{" with #{workers} workers" if workers}",
          "Use Ctrl-C to stop"
        ].join("\n")
      end

      # Marks an endpoint that serves only proxies.
      def self.for_proxies(endpoint)
        ", for proxies that send a PROXY header (#{endpoint.proxy_protocol})" if endpoint.proxy_protocol
      end

      def self.yjit? = defined?(RubyVM::YJIT) && RubyVM::YJIT.enabled?
    end
  end
end
