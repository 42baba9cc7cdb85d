# frozen_string_literal: true

# Gives each request an identifier (--request-id): a valid X-Request-Id, or a new one; in env,
# access log and response. Never waits.

require "securerandom"

module Gyre
  module Web
    class RequestId
      # Rails' rule for incoming ids; replaces others.
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

      # 128 bits from the system's generator, many ids per call: no id reveals another, also not in
      # a forked child.
      def fresh
        if @pool.empty? || @process != Process.pid
          @pool = SecureRandom.bytes(POOL_BYTES)
          @process = Process.pid
        end
        @pool.slice!(0, BYTES).unpack1("H*")
      end

      # Keeps the app's id, like Rails.
      def with(headers, id)
        return headers if !headers.is_a?(Hash) || headers.key?(HEADER) || headers.key?("X-Request-Id")
        return headers.merge(HEADER => id) if headers.frozen?

        headers[HEADER] = id
        headers
      end
    end
  end
end
