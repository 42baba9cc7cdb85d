# frozen_string_literal: true

# Paths for what is in front of the server: whether it lives, and whether it can take more requests.
# Gyre::Web::Server puts it before everything else, and its requests wait for no place. The app
# does not see them.

module Gyre
  module Web
    # A Rack middleware: 200 as long as the loop turns; on the second path 503 while the server
    # cannot take more.
    class Health
      HEADERS = { "content-type" => "text/plain", "cache-control" => "no-store" }.freeze
      private_constant :HEADERS

      # @param app [#call] a Rack app
      # @param health_path [String, nil] for example "/up"
      # @param ready_path [String, nil]
      # @yieldreturn [String, nil] why the server is not ready; nil when it is
      def initialize(app, health_path: nil, ready_path: nil, &unready)
        @app = app
        @health_path = health_path
        @ready_path = ready_path
        @unready = unready
      end

      # @return [Array<String>] the paths that it answers
      def paths = [@health_path, @ready_path].compact

      # @param env [Hash]
      # @return [Array] a Rack response
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
