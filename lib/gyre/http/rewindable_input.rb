# frozen_string_literal: true

# A rewindable rack.input for apps that need one: those of Rack 2, and of frameworks that rewind
# wherever they can. Server adds it. An app that never reads costs nothing.

require "gyre/http/input"
require "forwardable"
require "stringio"

module Gyre
  module HTTP
    # At its first use reads the whole body of an Input into memory or a temporary file.
    class RewindableInput
      extend Forwardable

      # Maximum bytes of a body in memory; a larger body goes to a file.
      MEMORY_BYTES_LIMIT = 112 * 1024
      # Rails' `raw_post` reads a form again after its parameters; in apps of the others
      # `request.body.rewind` is usual (a webhook's signature), as all other servers rewind.
      FRAMEWORKS = %i[ActionDispatch Sinatra Grape Hanami Roda].freeze
      private_constant :FRAMEWORKS

      def_delegators :kept, :read, :readpartial, :gets, :each, :rewind, :size

      # Returns the app itself unless it expects to rewind.
      def self.around(app)
        return app unless FRAMEWORKS.any? { |name| Object.const_defined?(name) } || Rack2.loaded?

        lambda do |env|
          replace(env) unless env["rack.input"].equal?(Input::EMPTY)
          app.call(env)
        end
      end

      def self.replace(env)
        input = env["rack.input"] = new(env["rack.input"])
        env["rack.response_finished"] << ->(*) { input.discard }
      end
      private_class_method :replace

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
      def discard = (@kept.close! if @kept.respond_to?(:close!))

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
