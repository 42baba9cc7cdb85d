# frozen_string_literal: true

# Checks a request for a WebSocket (RFC 6455, section 4.2) and makes the response's headers.

require "digest/sha1"

module Gyre
  class WebSocket
    # The server's side.
    class Handshake
      GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
      # Matches 16 bytes in Base64.
      KEY = %r{\A[A-Za-z0-9+/]{21}[AQgw]==\z}.freeze
      VERSION = "13"
      DEFAULT_PORTS = { "http" => ":80", "https" => ":443" }.freeze
      private_constant :GUID, :KEY, :VERSION, :DEFAULT_PORTS

      def self.requested?(env)
        env["REQUEST_METHOD"] == "GET" && env["rack.protocol"].is_a?(Array) && env["rack.protocol"].any? { |name| name.casecmp?("websocket") }
      end

      # Returns Sec-WebSocket-Accept, which proves that the server has read the client's key.
      def self.accept(key) = Digest::SHA1.base64digest(key + GUID)

      attr_reader :refusal # a response, or nil
      attr_reader :protocol

      def initialize(env, protocols, origins)
        @env = env
        @refusal = find_refusal(origins)
        @protocol = protocols.find { |name| offered.include?(name) }
      end

      def headers
        headers = { "upgrade" => "websocket", "sec-websocket-accept" => Handshake.accept(@env["HTTP_SEC_WEBSOCKET_KEY"]) }
        headers["sec-websocket-protocol"] = @protocol if @protocol
        headers
      end

      def refuse(status, reason, headers = {}) = [status, { "content-type" => "text/plain", **headers }, ["#{reason}\n"]]

      private

      def find_refusal(origins)
        unless self.class.requested?(@env) && @env.key?("gyre.client_gone")
          return refuse(426, "this address is for WebSockets", "upgrade" => "websocket", "connection" => "upgrade")
        end
        unless @env["HTTP_SEC_WEBSOCKET_VERSION"] == VERSION
          return refuse(426, "only version #{VERSION} of WebSockets is spoken here", "sec-websocket-version" => VERSION)
        end
        return refuse(400, "a request for a WebSocket has no body") if body?
        return refuse(400, "the Sec-WebSocket-Key is malformed") unless KEY.match?(@env["HTTP_SEC_WEBSOCKET_KEY"].to_s)

        refuse(403, "pages of this origin may not open this WebSocket") unless allowed?(origins)
      end

      # True if the request has a body, whose bytes would mix with the first frames.
      def body? = @env.key?("HTTP_TRANSFER_ENCODING") || @env["CONTENT_LENGTH"].to_i.positive?

      # Checks the page's origin: browsers let any page connect with the user's cookies (section
      # 10.2).
      def allowed?(origins)
        origin = @env["HTTP_ORIGIN"]
        return true if origin.nil? || origins == :any
        return own?(origin) if origins.nil?

        Array(origins).any? { |allowed| allowed === origin }
      end

      # Compares host and port, and the scheme if this server or a trusted proxy knows that it is
      # https; otherwise a proxy may use TLS while this server does not.
      def own?(origin)
        scheme, authority = origin.downcase.split("://", 2)
        return false if @env["rack.url_scheme"] == "https" && scheme != "https"

        host = @env["HTTP_HOST"].to_s.downcase
        port = DEFAULT_PORTS[scheme] or return false
        authority.to_s.delete_suffix(port) == host.delete_suffix(port)
      end

      def offered = @env["HTTP_SEC_WEBSOCKET_PROTOCOL"].to_s.split(/\s*,\s*/).map(&:strip)
    end
  end
end
