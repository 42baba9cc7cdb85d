# frozen_string_literal: true

# Paths for a load balancer: liveness and readiness. The first layer; needs no place.

module Gyre
  module Web
    # Responds 200 while the loop turns; on ready_path 503 while the server takes no more requests.
    class HealthCheck
      HEADERS = { "content-type" => "text/plain", "cache-control" => "no-store" }.freeze
      private_constant :HEADERS

      # The block returns why the server is not ready, or nil.
      def initialize(app, health_path: nil, ready_path: nil, &unready)
        @app = app
        @health_path = health_path
        @ready_path = ready_path
        @unready = unready
      end

      def paths = [@health_path, @ready_path].compact

      def call(env)
        case env["PATH_INFO"]
        when @health_path then respond(env, nil)
        when @ready_path then respond(env, @unready.call)
        else @app.call(env)
        end
      end

      private

      def respond(env, trouble)
        return [405, HEADERS.merge("allow" => "GET, HEAD"), []] unless %w[GET HEAD].include?(env["REQUEST_METHOD"])

        headers = HEADERS.dup
        headers["retry-after"] = "1" if trouble
        [trouble ? 503 : 200, headers, ["#{trouble || "ok"}\n"]]
      end
    end
  end
end
