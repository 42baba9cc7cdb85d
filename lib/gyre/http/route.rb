# frozen_string_literal: true

# Finds the pattern that a framework has matched a request's path with. Used by gyre/opentelemetry
# and, if a framework is loaded, by ext/gyre/http/route.c.

module Gyre
  module HTTP
    # A pattern has a limited number of values, unlike a path.
    module Route
      # The formats that a framework adds to a pattern: Rails (.:format), Grape also (.json).
      FORMAT = /\(\.(?::format|json)\)\z/.freeze
      # Rails has the route from 8.1 on, its pattern from 7.1 on.
      KEYS = %w[sinatra.route grape.routing_args action_dispatch.route action_dispatch.route_uri_pattern].freeze
      private_constant :FORMAT, :KEYS

      module_function

      # @param env [Hash] of a request, after the app has seen it
      # @return [String, nil] such as "/posts/:id"; nil: no framework has set one
      def of(env)
        env["gyre.route"] || name(source(env))
      end

      # Returns what names the route that was set last: that of the innermost app which took the
      # request, because the routes of apps that have passed it on stay in the env.
      # @api private
      def source(env)
        found = KEYS.to_h { |key| [key, env[key]] }.compact
        found["sinatra.route"] &&= found["sinatra.route"].split(" ", 2).last # "GET /posts/:id"
        found["grape.routing_args"] &&= found["grape.routing_args"][:route_info]
        found.compact!
        found.size > 1 ? found[env.keys.reverse_each.find { |key| found.key?(key) }] : found.values.first
      end

      # @param source [String, Object, nil] a pattern, or a route of Rails or Grape
      # @return [String, nil]
      def name(source)
        source = source.path if source.respond_to?(:path)
        source = source.spec if source.respond_to?(:spec)
        source.to_s.sub(FORMAT, "") if source
      end
    end
  end
end
