# frozen_string_literal: true

# Gives each request an identifier (--request-id): the client's or proxy's X-Request-Id, if valid,
# or a new one, in env for the app and the access log, and in the response. A layer between the
# server and the app; never waits.

require "securerandom"

module Gyre
  module Web
    class RequestId
      # Rails' rule for incoming ids, so that both agree. Other ids are replaced.
      VALID = /\A[\w@-]{1,200}\z/.freeze
      ENV_KEY = "HTTP_X_REQUEST_ID"
      HEADER = "x-request-id"
      BYTES = 16
      POOL_BYTES = BYTES * 256
      private_constant :BYTES, :POOL_BYTES

      def initialize(app)
        @app = app
        @pool = +""
        @process = nil
      end

      def call(env)
        id = env[ENV_KEY]
        id = env[ENV_KEY] = fresh unless id&.match?(VALID)
        status, headers, body = @app.call(env)
        [status, with(headers, id), body]
      end

      private

      # 128 bits from the system's generator, many ids at once: no id reveals another. A forked
      # child does not continue the parent's ids.
      def fresh
        if @pool.empty? || @process != Process.pid
          @pool = SecureRandom.bytes(POOL_BYTES)
          @process = Process.pid
        end
        @pool.slice!(0, BYTES).unpack1("H*")
      end

      # Keeps an id set by the app, like Rails.
      def with(headers, id)
        return headers if !headers.is_a?(Hash) || headers.key?(HEADER) || headers.key?("X-Request-Id")
        return headers.merge(HEADER => id) if headers.frozen?

        headers[HEADER] = id
        headers
      end
    end
  end
end
