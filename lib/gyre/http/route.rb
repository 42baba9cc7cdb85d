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
        env["gyre.route"] || rails(env) || env["sinatra.route"]&.split(" ", 2)&.last || grape(env)
      end

      # Rails has the route from 8.1 on, its pattern from 7.1 on.
      def rails(env)
        pattern = env["action_dispatch.route"]&.path&.spec&.to_s || env["action_dispatch.route_uri_pattern"]
        pattern&.sub(FORMAT, "")
      end

      def grape(env)
        route = env["grape.routing_args"]&.dig(:route_info)
        route.path.sub(FORMAT, "") if route.respond_to?(:path)
      end

      private_class_method :rails, :grape
    end
  end
end
