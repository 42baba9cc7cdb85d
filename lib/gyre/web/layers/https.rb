# frozen_string_literal: true

# The layer that leads plain requests to https (--https-redirect, --acme) and answers challenges of
# ACME (http-01, RFC 8555, section 8.3). An answer follows from the token and the account's key, so
# that every worker and machine with that key can give it.

module Gyre
  module Web
    class HTTPS
      CHALLENGE = %r{\A/\.well-known/acme-challenge/([A-Za-z0-9_-]{20,128})\z}.freeze # narrow, because the answer repeats the token
      ANSWER = { "content-type" => "application/octet-stream", "x-content-type-options" => "nosniff", "cache-control" => "no-store" }.freeze
      HOST = /\A([A-Za-z0-9._-]+)(?::\d+)?\z/.freeze

      # `tls`: settings of certificates, as TLSContexts has them; `acme`: an ACME::Store, or nil.
      # The block returns the port of https.
      def initialize(app, tls, acme: nil, redirect: true, &port)
        @app = app
        rows = tls.is_a?(Array) ? tls : []
        @names = rows.flat_map { |row| row[:names] } if rows.any? && rows.all? { |row| row[:names] }
        @challenged = acme&.names
        @thumbprint = acme&.key&.thumbprint
        @redirect = redirect
        @port = port
      end

      # Returns the token of a challenge's path.
      def token(path) = @thumbprint && path[CHALLENGE, 1]

      def call(env)
        host = env["HTTP_HOST"].to_s[HOST, 1].to_s.downcase
        token = token(env["PATH_INFO"])
        return @challenged.include?(host) ? [200, ANSWER.dup, ["#{token}.#{@thumbprint}"]] : misdirected if token
        return @app.call(env) unless @redirect && env["rack.url_scheme"] == "http" && env["REMOTE_ADDR"] != "" # as of a Unix socket

        served?(host) ? lead(env, host) : misdirected
      end

      private

      # Without names there is a certificate for all other hosts.
      def served?(host) = @names ? @names.intersect?([host, host.sub(/\A[^.]+/, "*")]) : !host.empty?

      def misdirected = [421, { "content-type" => "text/plain" }, ["there is no certificate for this host here\n"]]

      # Names the port only to clients that have named one.
      def lead(env, host)
        port = (@port.call if env["HTTP_HOST"].include?(":"))
        query = env["QUERY_STRING"].to_s
        location = "https://#{host}#{":#{port}" if port}#{env["PATH_INFO"]}#{"?#{query}" unless query.empty?}"
        [%w[GET HEAD].include?(env["REQUEST_METHOD"]) ? 301 : 308, { "location" => location }, []]
      end
    end
  end
end
