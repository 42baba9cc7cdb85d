# frozen_string_literal: true

# Finds the pattern that a framework has matched a request's path with. Used by gyre/opentelemetry
# and, if a framework is loaded, by ext/gyre/http/route.c.

module Gyre
  module HTTP
    # A pattern has a limited number of values, unlike a path.
    module Route
      # The formats that a framework adds to a pattern: Rails (.:format), Grape also (.json).
      FORMAT = /\(\.(?::format|json)\)\z/.freeze
      private_constant :FORMAT

      module_function

      # @param env [Hash] of a request, after the app has seen it
      # @return [String, nil] such as "/posts/:id"; nil: no framework has set one
      def of(env)
        # Rails comes last, as it has only the mount's route for apps that are mounted in it. It has
        # the route from 8.1 on, its pattern from 7.1 on.
        env["gyre.route"] || env["sinatra.route"]&.split(" ", 2)&.last || name(env["grape.routing_args"]&.dig(:route_info)) ||
          name(env["action_dispatch.route"] || env["action_dispatch.route_uri_pattern"])
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
