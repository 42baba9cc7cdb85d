# frozen_string_literal: true

# Adapts the server to apps on Rack 2. Added by Server only if Rack 2 is loaded.

require "gyre/http/input"
require "forwardable"
require "stringio"

module Gyre
  module HTTP
    # Adds a rewinding rack.input, rack.hijack_io, and multi-line header values.
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

      # Makes a header of each line of a value: "set-cookie" => "a=1\nb=2".
      def split(headers)
        return headers unless headers.respond_to?(:any?) && headers.any? { |_, value| several?(value) }

        headers.each_with_object({}) { |(name, value), split| split[name] = several?(value) ? value.split("\n") : value }
      end

      def several?(value) = value.is_a?(String) && value.include?("\n")
    end

    # A rewinding rack.input for Rack 2. Reads the whole body of an Input at its first use, into
    # memory or a temporary file.
    class RewindableInput
      extend Forwardable

      # Larger bodies go to a file.
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
