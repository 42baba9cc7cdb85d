# frozen_string_literal: true

# The template of Rack environments, which ext/gyre/http/env.c fills in. Server makes one per
# acceptor.

require "gyre/http/input"
require "socket"

module Gyre
  module HTTP
    # Hashes after the Rack 3.1 SPEC, plus gyre.trailers for chunked bodies.
    module Env
      WEBSOCKET_KEY = ["a stream of HTTP"].pack("m0").freeze # 16 bytes

      class << self
        # Returns constant entries, and placeholders for others, as filling existing keys is
        # cheaper. `extra` adds entries, `early_hints` rack.early_hints.
        def template(early_hints: false, extra: {})
          template = {
            "REQUEST_METHOD" => "GET".b.freeze, "SCRIPT_NAME" => "".b.freeze, "PATH_INFO" => nil, "QUERY_STRING" => "".b.freeze,
            "REQUEST_URI" => nil, "SERVER_NAME" => nil, "SERVER_PORT" => nil, "SERVER_PROTOCOL" => "HTTP/1.1".b.freeze,
            "REMOTE_ADDR" => nil,
            "rack.url_scheme" => "http".b.freeze, "rack.errors" => $stderr, "rack.input" => Input::EMPTY,
            "rack.hijack?" => true, "rack.hijack" => nil, "rack.response_finished" => nil,
            "gyre.client_gone" => nil,
            "gyre.response_trailers" => nil
          }
          template["rack.early_hints"] = nil if early_hints
          template.merge!(extra).freeze
        end

        # Sets rack.protocol to the names in Upgrade.
        def offer(env) = env["rack.protocol"] = env["HTTP_UPGRADE"].split(",").map(&:strip).reject(&:empty?)

        # For HTTP/1.0 without Host: sets the socket's address, or "localhost" for a Unix socket.
        def own_address(env, descriptor)
          address = Socket.for_fd(descriptor).tap { |socket| socket.autoclose = false }.local_address
          name, port = address.ip? ? [address.ip_address[/[^%]+/], address.ip_port] : ["localhost", 80]
          env["SERVER_NAME"] = (address.ipv6? ? "[#{name}]" : name).b.freeze
          env["SERVER_PORT"] = port.to_s.b.freeze
        end

        # Makes a CONNECT for a WebSocket (RFC 8441) look like HTTP/1.1's upgrade, so that routes,
        # Gyre::WebSocket and hijacking gems serve both. The key proves nothing here.
        def upgrade(env, exchange)
          env.update("REQUEST_METHOD" => "GET", "HTTP_CONNECTION" => "Upgrade", "HTTP_UPGRADE" => "websocket",
                     "HTTP_SEC_WEBSOCKET_KEY" => WEBSOCKET_KEY, "rack.hijack" => exchange)
        end

        # Adds a verified client certificate under mod_ssl's names and as puma.peercert (an
        # OpenSSL::X509::Certificate). `der` is nil if the client sent none.
        def client_certificate(env, der)
          env["SSL_CLIENT_VERIFY"] = der ? "SUCCESS" : "NONE"
          return unless der

          certificate = OpenSSL::X509::Certificate.new(der)
          env["SSL_CLIENT_CERT"] = certificate.to_pem
          env["SSL_CLIENT_S_DN"] = certificate.subject.to_s(OpenSSL::X509::Name::RFC2253)
          env["SSL_CLIENT_I_DN"] = certificate.issuer.to_s(OpenSSL::X509::Name::RFC2253)
          env["SSL_CLIENT_M_SERIAL"] = certificate.serial.to_s(16)
          env["puma.peercert"] = certificate
        end
      end
    end
  end
end
