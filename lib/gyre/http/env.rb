# frozen_string_literal: true

# The template that each request's Rack environment is a copy of; ext/gyre/http/http1_env.c fills in
# the rest. Server makes one for each acceptor. It has no request.

require "gyre/http/input"

module Gyre
  module HTTP
    # Hashes after the Rack 3.1 SPEC and, for chunked bodies, gyre.trailers.
    module Env
      class << self
        # What is the same for each request of a server, and a place for whatever each request must
        # set: a Hash that has its keys already is cheaper to fill.
        #
        # @param scheme [String] "http" or "https"
        # @param errors [#puts, #write, #flush] rack.errors
        # @param early_hints [Boolean] whether there is rack.early_hints
        # @param extra [Hash{String => Object}] more entries, the same for each request
        # @return [Hash{String => Object}] frozen
        def template(scheme: "http", errors: $stderr, early_hints: false, extra: {})
          template = {
            "REQUEST_METHOD" => "GET".b.freeze, "SCRIPT_NAME" => "".b.freeze, "PATH_INFO" => nil, "QUERY_STRING" => "".b.freeze,
            "REQUEST_URI" => nil, "SERVER_NAME" => nil, "SERVER_PORT" => nil, "SERVER_PROTOCOL" => "HTTP/1.1".b.freeze,
            "REMOTE_ADDR" => nil,
            "rack.url_scheme" => scheme.b.freeze, "rack.errors" => errors, "rack.input" => Input::EMPTY,
            "rack.hijack?" => true, "rack.hijack" => nil, "rack.response_finished" => nil,
            "gyre.client_gone" => nil,
            "gyre.response_trailers" => nil
          }
          template["rack.early_hints"] = nil if early_hints
          template["HTTPS"] = "on".b.freeze if scheme == "https"
          template.merge!(extra).freeze
        end

        # Enters the certificate of a client, on a connection where it was asked for one and it was
        # found good: by the names of Apache's mod_ssl, and puma.peercert (an
        # OpenSSL::X509::Certificate).
        #
        # @api private The extension calls it.
        # @param env [Hash]
        # @param der [String, nil] nil: the client showed none
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
