# frozen_string_literal: true

# Between the server and an app that runs on Rack 2: what that version's SPEC requires and Rack 3's
# does not. Server puts it around an app when Rack 2 is loaded, so apps on Rack 3 pay nothing. It
# changes what passes, and sends nothing itself.

require "gyre/http/input"
require "gyre/http/rewindable_input"

module Gyre
  module HTTP
    # rack.input rewinds, rack.hijack_io is there, header values hold several lines.
    class Rack2
      VERSION = [1, 3].freeze
      private_constant :VERSION

      # @param app [#call]
      # @return [#call] the app, or one around it when Rack 2 is loaded
      def self.around(app)
        return app unless defined?(::Rack.release) && ::Rack.release.to_i < 3

        new(app)
      end

      # @param app [#call]
      def initialize(app)
        @app = app
      end

      # @param env [Hash]
      # @return [Array(Integer, Hash, #each)]
      def call(env)
        make_rewindable(env)
        hijack = env["rack.hijack"]
        env["rack.hijack"] = -> { env["rack.hijack_io"] = hijack.call }
        env["rack.version"] = VERSION
        env["rack.multithread"] = true # requests take turns at every wait
        env["rack.multiprocess"] = env["rack.run_once"] = false
        status, headers, body = @app.call(env)
        [status, split(headers), body]
      end

      private

      def make_rewindable(env)
        return if env["rack.input"].equal?(Input::EMPTY)

        input = env["rack.input"] = RewindableInput.new(env["rack.input"])
        env["rack.response_finished"] << ->(*) { input.discard }
      end

      # One header for each line of a value: "set-cookie" => "a=1\nb=2".
      def split(headers)
        return headers unless headers.respond_to?(:any?) && headers.any? { |_, value| several?(value) }

        headers.each_with_object({}) { |(name, value), split| split[name] = several?(value) ? value.split("\n") : value }
      end

      def several?(value)
        value.is_a?(String) && value.include?("\n")
      end
    end
  end
end
