# frozen_string_literal: true

# Gives each request an identifier (--request-id): the client's or proxy's X-Request-Id, if it can
# be one, or a new one. It is in the env for the app and the access log, and in the response. A
# layer between the server and the app; it waits for nothing.

require "securerandom"

module Gyre
  module Web
    # See the head of this file.
    class RequestId
      # What Rails keeps of an incoming one, so that both have the same. Others are replaced.
      VALID = /\A[\w@-]{1,200}\z/.freeze
      ENV_KEY = "HTTP_X_REQUEST_ID"
      HEADER = "x-request-id"
      BYTES = 16
      POOL_BYTES = BYTES * 256
      private_constant :BYTES, :POOL_BYTES

      # @param app [#call] a Rack app
      def initialize(app)
        @app = app
        @pool = +""
        @process = nil
      end

      # @param env [Hash] of Rack
      # @return [Array]
      def call(env)
        id = env[ENV_KEY]
        id = env[ENV_KEY] = fresh unless id&.match?(VALID)
        status, headers, body = @app.call(env)
        [status, with(headers, id), body]
      end

      private

      # 128 bits from the system's generator, of which many are taken at once: none tells anything
      # about the others. A forked child does not go on with its parent's.
      def fresh
        if @pool.empty? || @process != Process.pid
          @pool = SecureRandom.bytes(POOL_BYTES)
          @process = Process.pid
        end
        @pool.slice!(0, BYTES).unpack1("H*")
      end

      # The app's own stays (Rails sets it from the env).
      def with(headers, id)
        return headers if !headers.is_a?(Hash) || headers.key?(HEADER) || headers.key?("X-Request-Id")
        return headers.merge(HEADER => id) if headers.frozen?

        headers[HEADER] = id
        headers
      end
    end
  end
end
