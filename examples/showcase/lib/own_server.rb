# frozen_string_literal: true

# What the app finds out about the server that runs it: its figures and where it listens. Only with
# Gyre; on another server there are no figures, and the environment variable SHOWCASE_URL has to
# name where the server is. The address never comes from a request. With the Host header a visitor
# could make the server send its requests to any other machine (server-side request forgery).

require "uri"

module Showcase
  # The figures and the comparison ask it.
  module OwnServer
    # What one connects to when a server listens on every address.
    LOOPBACK = { "0.0.0.0" => "127.0.0.1", "::" => "::1" }.freeze

    module_function

    # @param env [Hash] of the request
    # @return [Hash{Symbol => Object}] what the page shows: backend:, connections:, tasks:, turns:;
    #   empty elsewhere
    def figures(env)
      server = env["gyre.server"] or return {}
      stats = Fiber.scheduler.stats
      { backend: Fiber.scheduler.backend, connections: server.stats[:connections], tasks: stats[:tasks], turns: stats[:turns] }
    end

    # @param env [Hash] of the request
    # @return [Array(String, Integer)] host and port
    def address(env)
      if ENV["SHOWCASE_URL"]
        url = URI(ENV["SHOWCASE_URL"])
        return [url.hostname, url.port]
      end

      endpoint = env["gyre.server"]&.endpoints&.find { |each| each.transport == :tcp }
      raise "set SHOWCASE_URL, so that the showcase can ask the shops on this server" unless endpoint

      [LOOPBACK.fetch(endpoint.host, endpoint.host), endpoint.port]
    end
  end
end
