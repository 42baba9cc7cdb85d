# frozen_string_literal: true

# Rack middleware for routes that compute or wait in C: runs whole requests, including the body and
# its `close`, in threads of Gyre.blocking. Used in config.ru.

require "gyre/offload/blocking"

module Gyre
  module Web
    # Runs whole requests outside the loop.
    #
    #   use Gyre::Web::Blocking, paths: ["/reports", "/exports"]
    #   use Gyre::Web::Blocking do |env| env["REQUEST_METHOD"] == "POST" end
    class Blocking
      # Requests for `paths` and for paths below them run in threads; nil: all requests. Instead of
      # `paths`, a block may decide by env.
      def initialize(app, paths: nil, &block)
        raise ArgumentError, "either paths or a block, not both" if paths && block

        @app = app
        @paths = paths && Array(paths).map { |path| path.delete_suffix("/") }
        @block = block
      end

      def call(env) = blocking?(env) ? Gyre.blocking { respond(env) } : @app.call(env)

      private

      def blocking?(env)
        return @block.call(env) if @block

        path = env["PATH_INFO"]
        @paths.nil? || @paths.any? { |root| path == root || path.start_with?("#{root}/") }
      end

      # Closes the body in the same thread, because closing releases objects of the thread or fiber,
      # such as Active Record's connection.
      def respond(env)
        status, headers, body = @app.call(env)
        [status, headers, whole(body)]
      end

      # A streaming body also runs in a thread.
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
