# frozen_string_literal: true

# The app's view of its server: figures and address. Only on Gyre; elsewhere there are no figures,
# and the environment variable SHOWCASE_URL must name the server. The address never comes from a
# request: by the Host header a visitor could make the server send requests to any other machine
# (server-side request forgery).

require "uri"

module Showcase
  # Asked by the figures and the comparison.
  module OwnServer
    # The address to connect to if a server listens on every address.
    LOOPBACK = { "0.0.0.0" => "127.0.0.1", "::" => "::1" }.freeze

    module_function

    # Figures for the page: backend:, connections:, tasks:, turns:, stopping:; empty elsewhere.
    def figures(env)
      server = env["gyre.server"] or return {}
      stats = Fiber.scheduler.stats
      { backend: Fiber.scheduler.backend, connections: server.stats[:connections], tasks: stats[:tasks], turns: stats[:turns],
        stopping: server.stopping? }
    end

    # For a client of HTTP.
    def url(env)
      host, port = address(env)
      "http://#{host.include?(":") ? "[#{host}]" : host}:#{port}"
    end

    # Host and port.
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
