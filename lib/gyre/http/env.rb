# frozen_string_literal: true

# Makes the template of Rack environments, and parts that only some requests need. Server makes a
# template for each acceptor; ext/gyre/http/env.c fills in a copy for each request.

require "gyre/http/input"
require "socket"

module Gyre
  module HTTP
    # The Hashes follow the Rack 3.1 SPEC. They add gyre.trailers for chunked bodies.
    module Env
      WEBSOCKET_KEY = ["a stream of HTTP"].pack("m0").freeze # 16 bytes

      class << self
        # Returns constant entries, and placeholders for other entries: filling existing keys is
        # cheaper than adding keys. `extra` adds entries; `early_hints` adds rack.early_hints.
        def template(early_hints: false, extra: {})
          template = {
            "REQUEST_METHOD" => "GET".b.freeze, "SCRIPT_NAME" => "".b.freeze, "PATH_INFO" => nil, "QUERY_STRING" => "".b.freeze,
            "REQUEST_URI" => nil, "SERVER_NAME" => nil, "SERVER_PORT" => nil, "SERVER_PROTOCOL" => "HTTP/1.1".b.freeze,
            "REMOTE_ADDR" => nil,
            "rack.url_scheme" => "http".b.freeze, "rack.errors" => $stderr, "rack.input" => Input::EMPTY,
            "rack.hijack?" => true, "rack.hijack" => nil, "rack.response_finished" => nil, "rack.after_reply" => nil,
            "gyre.client_gone" => nil,
            "gyre.response_trailers" => nil
          }
          template["rack.early_hints"] = nil if early_hints
          template.merge!(extra).freeze
        end

        def offer(env) = env["rack.protocol"] = env["HTTP_UPGRADE"].split(",").map(&:strip).reject(&:empty?)

        # Sets the server's name and port to the socket's address, or to "localhost" for a Unix
        # socket. Used if an HTTP/1.0 request has no Host.
        def own_address(env, descriptor)
          address = Socket.for_fd(descriptor).tap { |socket| socket.autoclose = false }.local_address
          name, port = address.ip? ? [address.ip_address[/[^%]+/], address.ip_port] : ["localhost", 80]
          env["SERVER_NAME"] = (address.ipv6? ? "[#{name}]" : name).b.freeze
          env["SERVER_PORT"] = port.to_s.b.freeze
        end

        # Makes a CONNECT for a WebSocket (RFC 8441) look like an upgrade of HTTP/1.1, so that
        # routes, Gyre::WebSocket and hijacking gems handle both. HTTP/2 has no Sec-WebSocket-Key: a
        # constant takes its place.
        def upgrade(env, exchange)
          env.update("REQUEST_METHOD" => "GET", "HTTP_CONNECTION" => "Upgrade", "HTTP_UPGRADE" => "websocket",
                     "HTTP_SEC_WEBSOCKET_KEY" => WEBSOCKET_KEY, "rack.hijack" => exchange)
        end

        # Adds a verified client certificate under mod_ssl's names and as puma.peercert (an
        # OpenSSL::X509::Certificate). `der` is nil if the client sent no certificate.
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
