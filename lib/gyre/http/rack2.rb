# frozen_string_literal: true

# Adapts the server to Rack 2 apps. Server adds it only if Rack 2 is loaded.

require "gyre/http/rewindable_input"

module Gyre
  module HTTP
    # Splits multi-line header values. The input is rewindable (RewindableInput).
    class Rack2
      VERSION = [1, 3].freeze

      def self.loaded? = defined?(::Rack.release) && ::Rack.release.to_i < 3

      # Returns the app itself unless Rack 2 is loaded.
      def self.around(app) = loaded? ? new(app) : app

      def initialize(app)
        @app = app
      end

      def call(env)
        env["rack.version"] = VERSION
        env["rack.multithread"] = true # other requests run during every wait
        env["rack.multiprocess"] = env["rack.run_once"] = false
        status, headers, body = @app.call(env)
        [status, split(headers), body]
      end

      private

      # Splits header values into an Array of lines, such as "set-cookie" => "a=1\nb=2".
      def split(headers)
        return headers unless headers.respond_to?(:any?) && headers.any? { |_, value| several?(value) }

        headers.each_with_object({}) { |(name, value), split| split[name] = several?(value) ? value.split("\n") : value }
      end

      def several?(value) = value.is_a?(String) && value.include?("\n")
    end
  end
end
