# frozen_string_literal: true

# A Rack middleware for routes that compute or wait in C code: their requests run in the threads of
# Gyre.blocking, with body and close, so that the loop goes on. Used in an app's config.ru. Touches
# no socket.

require "gyre/offload/blocking"

module Gyre
  module Web
    # Runs whole requests beside the loop.
    #
    #   use Gyre::Web::Blocking, paths: ["/reports", "/exports"]
    #   use Gyre::Web::Blocking do |env| env["REQUEST_METHOD"] == "POST" end
    class Blocking
      # `paths` and what is below them (nil: all), or a block that decides by env.
      def initialize(app, paths: nil, &block)
        raise ArgumentError, "either paths or a block, not both" if paths && block

        @app = app
        @paths = paths && Array(paths).map { |path| path.delete_suffix("/") }
        @block = block
      end

      def call(env)
        blocking?(env) ? Gyre.blocking { respond(env) } : @app.call(env)
      end

      private

      def blocking?(env)
        return @block.call(env) if @block

        path = env["PATH_INFO"]
        @paths.nil? || @paths.any? { |root| path == root || path.start_with?("#{root}/") }
      end

      # The body is closed here, too: closing it releases what belongs to this thread or fiber
      # (Active Record's connection).
      def respond(env)
        status, headers, body = @app.call(env)
        [status, headers, whole(body)]
      end

      # A streaming body also runs in a thread, where its stream, like the request's input, may be
      # used.
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
