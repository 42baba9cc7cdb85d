# frozen_string_literal: true

# Rack environments: the template that both engines dup for each request, and the portable engine's way from a parsed head to
# an env (the native one does that in C and must give the same). It reads no body and knows no socket.

require "gyre/http1/input"

module Gyre
  module HTTP1
    # Hashes after the Rack 3.1 SPEC and, for chunked bodies, gyre.trailers.
    module Env
      # Cookies are the one list whose members are not separated by a comma (RFC 6265, section 5.4).
      SEPARATORS = Hash.new(", ").merge!("HTTP_COOKIE" => "; ").freeze
      # These two have names of their own, as in CGI.
      PLAIN = { "HTTP_CONTENT_TYPE" => "CONTENT_TYPE", "HTTP_CONTENT_LENGTH" => "CONTENT_LENGTH" }.freeze
      private_constant :SEPARATORS, :PLAIN

      class << self
        # What is the same for each request of a server, and a place for whatever each request must set: a Hash that
        # has its keys already is cheaper to fill.
        #
        # @param scheme [String] "http" or "https"
        # @param errors [#puts, #write, #flush] rack.errors
        # @param extra [Hash{String => Object}] more entries, the same for each request
        # @return [Hash{String => Object}] frozen
        def template(scheme: "http", errors: $stderr, extra: {})
          template = {
            "REQUEST_METHOD" => "GET".b.freeze, "SCRIPT_NAME" => "".b.freeze, "PATH_INFO" => nil, "QUERY_STRING" => "".b.freeze,
            "REQUEST_URI" => nil, "SERVER_NAME" => nil, "SERVER_PORT" => nil, "SERVER_PROTOCOL" => "HTTP/1.1".b.freeze,
            "REMOTE_ADDR" => nil,
            "rack.url_scheme" => scheme.b.freeze, "rack.errors" => errors, "rack.input" => Input::EMPTY,
            "rack.hijack?" => true, "rack.hijack" => nil, "rack.early_hints" => nil, "rack.response_finished" => nil
          }
          template["HTTPS"] = "on".b.freeze if scheme == "https"
          template.merge!(extra).freeze
        end

        # @param template [Hash] see {template}
        # @param head [Parser::Head] a complete one
        # @param connection [Connection]
        # @param name [String] SERVER_NAME without an authority
        # @param port [String] SERVER_PORT without an authority
        # @return [Hash{String => Object}]
        def build(template, head, connection, name, port)
          env = template.dup
          request_line(env, head)
          fields(env, head.fields)
          authority(env, head, name, port)
          env["REMOTE_ADDR"] = connection.remote_address
          env["rack.hijack"] = env["rack.early_hints"] = connection
          env["rack.response_finished"] = []
          body(env, head, connection)
          env["rack.protocol"] = env["HTTP_UPGRADE"].split(",").map(&:strip).reject(&:empty?) if head.upgrade?
          env
        end

        private

        def request_line(env, head)
          env["REQUEST_METHOD"] = head.method
          env["REQUEST_URI"] = head.target
          env["PATH_INFO"] = head.path
          env["QUERY_STRING"] = head.query if head.query
          env["SERVER_PROTOCOL"] = "HTTP/1.0".b if head.minor_version.zero?
        end

        # A name with "_" could pose as another with "-" (CVE-2024-45614), so it is left out.
        def fields(env, fields)
          fields.each do |name, value|
            next if name.include?("_")

            key = "HTTP_#{name.upcase.tr("-", "_")}"
            key = PLAIN.fetch(key, key)
            present = env[key]
            env[key] = present ? present + SEPARATORS[key] + value : value
          end
        end

        # RFC 9112, section 3.2.2: the authority of an absolute-form target replaces Host.
        def authority(env, head, name, port)
          authority = head.authority
          return env.update("SERVER_NAME" => name.dup, "SERVER_PORT" => port.dup) if authority.nil? || authority.empty?

          env["HTTP_HOST"] = authority
          env["SERVER_NAME"] = head.host
          env["SERVER_PORT"] = head.port && !head.port.empty? ? head.port : default_port(env)
        end

        def default_port(env)
          env["rack.url_scheme"] == "https" ? "443".b : "80".b
        end

        def body(env, head, connection)
          if head.chunked?
            env["gyre.trailers"] = connection.method(:trailers)
          elsif !head.content_length&.positive?
            return
          end
          env["rack.input"] = Input.new(connection)
        end
      end
    end
  end
end
