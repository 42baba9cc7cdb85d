# frozen_string_literal: true

# A Rack middleware for routes that compute, or that wait in C code: their requests run in the
# threads of Gyre.blocking, with body and close, so that the loop goes on. An app that has some
# names it in its config.ru. It touches no socket.

require "gyre/offload/blocking"

module Gyre
  module Web
    # Whole requests beside the loop.
    #
    #   use Gyre::Web::Blocking, paths: ["/reports", "/exports"]
    #   use Gyre::Web::Blocking do |env| env["REQUEST_METHOD"] == "POST" end
    class Blocking
      # @param app [#call] a Rack app
      # @param paths [Array<String>, nil] these, and what is below them; nil: all
      # @yieldparam env [Hash]
      # @yieldreturn [Boolean] whether the request is one of those; instead of paths
      def initialize(app, paths: nil, &block)
        raise ArgumentError, "either paths or a block, not both" if paths && block

        @app = app
        @paths = paths && Array(paths).map { |path| path.delete_suffix("/") }
        @block = block
      end

      # @param env [Hash]
      # @return [Array] a Rack response
      def call(env)
        blocking?(env) ? Gyre.blocking { respond(env) } : @app.call(env)
      end

      private

      def blocking?(env)
        return @block.call(env) if @block

        path = env["PATH_INFO"]
        @paths.nil? || @paths.any? { |root| path == root || path.start_with?("#{root}/") }
      end

      # What belongs to the request by its thread or fiber (Active Record's connection) is given
      # back when the body is closed: that has to be here, too.
      def respond(env)
        status, headers, body = @app.call(env)
        [status, headers, whole(body)]
      end

      # A body that streams does so in a thread as well. Its stream, as the request's input, may be
      # used from there.
      def whole(body)
        return body if body.respond_to?(:to_path)
        return body.to_ary if body.respond_to?(:to_ary)
        return ->(stream) { Gyre.blocking { body.call(stream) } } unless body.respond_to?(:each)

        begin
          [].tap { |parts| body.each { |part| parts << part } }
        ensure
          body.close if body.respond_to?(:close)
        end
      end
    end
  end
end
