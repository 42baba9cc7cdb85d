# frozen_string_literal: true

# The HTTP client: `require "gyre/http/client"`. Gyre::HTTP.get and Gyre::HTTP::Client, for tasks,
# fibers and plain threads. Chooses the pool, builds requests, follows redirects, repeats requests
# where that is safe.

require "gyre/http/client/errors"
require "gyre/http/client/limits"
require "gyre/http/client/origin"
require "gyre/http/client/pool"
require "gyre/http/client/response"

module Gyre
  module HTTP
    # A client with connections that it keeps. Fibers and threads may share it.
    class Client
      IDEMPOTENT = %w[GET HEAD PUT DELETE OPTIONS TRACE].freeze
      Options = Struct.new(:limits, :tls)
      private_constant :IDEMPOTENT, :Options

      # @param base_url [String, nil] begins each address of a request
      # @param headers [Hash{String => String}] of each request
      # @param limits [Hash] see {Limits}
      def initialize(base_url = nil, headers: {}, tls: nil, **limits)
        @options = Options.new(Limits.new(**limits), tls)
        @headers = { "user-agent" => "gyre", "accept" => "*/*", **headers }
        @base = base_url&.chomp("/")
        @homes = {}.compare_by_identity
      end

      # Sends a GET request.
      # @param url [String] an address, or a path behind base_url
      # @return [Response]
      def get(url, **options, &block) = request("GET", url, **options, &block)

      # Sends a request.
      # @return [Response]
      def request(method, url, body: nil, headers: nil)
        scheme, host, port, _user, target = Origin.split(@base ? "#{@base}#{url}" : url)
        pool = pool_of(scheme, host, port)
        fields = { "host" => pool.authority, **@headers }
        fields.update(headers) if headers
        response = perform(pool, method, target, fields, body, nil)
        return response.load(@options.limits.body_bytes_limit) unless block_given?

        begin
          yield response
        ensure
          response.close
        end
      end

      # Closes kept connections. A later request makes new ones.
      # @return [nil]
      def close
        @homes.each_value { |pools| pools.each_value(&:close) }
        nil
      end

      private

      def pool_of(scheme, host, port)
        pools = @homes[Fiber.current_scheduler] ||= {}
        pools["#{scheme}://#{host}:#{port}"] ||= Pool.new(Origin.new(scheme, host, port, @options), @options.limits)
      end

      def perform(pool, method, target, fields, body, until_s)
        tries = 0
        begin
          connection = pool.take(until_s)
          used = connection.used?
          exchange = connection.request(method, target, fields, body, until_s)
          Response.new(method, exchange, pool, connection)
        rescue Unanswered => error
          pool.give(connection)
          retry if (!error.processed? || (used && IDEMPOTENT.include?(method))) && (tries += 1) <= @options.limits.retries_limit
          raise error.error
        end
      end
    end

    class << self
      # @return [Client] for requests without a client of their own
      def client = Ractor.current[:gyre_http_client] ||= Client.new

      # @see Client#get
      def get(url, **options, &block) = client.get(url, **options, &block)
    end
  end
end
