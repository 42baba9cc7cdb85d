# frozen_string_literal: true

# Adapts the server to Rack 2 apps. Server adds it only if Rack 2 is loaded.

require "gyre/http/input"
require "forwardable"
require "stringio"

module Gyre
  module HTTP
    # Adds a rewindable rack.input. Splits multi-line header values.
    class Rack2
      VERSION = [1, 3].freeze

      # Returns the app itself unless Rack 2 is loaded.
      def self.around(app)
        return app unless defined?(::Rack.release) && ::Rack.release.to_i < 3

        new(app)
      end

      def initialize(app)
        @app = app
      end

      def call(env)
        make_rewindable(env)
        env["rack.version"] = VERSION
        env["rack.multithread"] = true # other requests run during every wait
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

      # Splits header values into an Array of lines, such as "set-cookie" => "a=1\nb=2".
      def split(headers)
        return headers unless headers.respond_to?(:any?) && headers.any? { |_, value| several?(value) }

        headers.each_with_object({}) { |(name, value), split| split[name] = several?(value) ? value.split("\n") : value }
      end

      def several?(value) = value.is_a?(String) && value.include?("\n")
    end

    # A rewindable rack.input for Rack 2. At its first use reads the whole body of an Input into
    # memory or a temporary file.
    class RewindableInput
      extend Forwardable

      # Maximum bytes of a body in memory; a larger body goes to a file.
      MEMORY_BYTES_LIMIT = 112 * 1024

      def_delegators :kept, :read, :readpartial, :gets, :each, :rewind, :size

      def initialize(input)
        @input = input
      end

      def close
        @input.close
        discard
        @kept = StringIO.new(String.new)
        nil
      end

      # Deletes the temporary file.
      def discard
        @kept.close! if @kept.respond_to?(:close!)
      end

      private

      def kept
        @kept ||= begin
          body = @input.read(MEMORY_BYTES_LIMIT + 1) || String.new
          body.bytesize > MEMORY_BYTES_LIMIT ? to_file(body) : StringIO.new(body)
        end
      end

      def to_file(beginning)
        require "tempfile"
        Tempfile.new("gyre-body", binmode: true).tap do |file|
          file.unlink
          file.write(beginning)
          IO.copy_stream(@input, file)
          file.rewind
        end
      end
    end
  end
end
