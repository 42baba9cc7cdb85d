# frozen_string_literal: true

# A second implementation of ext/gyre/http/env.c: the Rack environment that belongs to a
# parsed head, in plain Ruby. The contract of the environments compares the two. It reads no body
# and has no socket.

require "gyre/http/env"
require "oracle/http/parser"

module HTTPOracle
  # Environments as they have to be.
  module Env
    # Cookies are the one list whose members are not separated by a comma (RFC 6265, section 5.4).
    SEPARATORS = Hash.new(", ").merge!("HTTP_COOKIE" => "; ").freeze
    # These two have names of their own, as in CGI.
    PLAIN = { "HTTP_CONTENT_TYPE" => "CONTENT_TYPE", "HTTP_CONTENT_LENGTH" => "CONTENT_LENGTH" }.freeze
    private_constant :SEPARATORS, :PLAIN

    class << self
      def build(template, head, connection, remote_address, name, port)
        env = template.dup
        request_line(env, head)
        fields(env, head.fields)
        authority(env, head, name, port)
        env["REMOTE_ADDR"] = remote_address
        env["rack.hijack"] = env["gyre.client_gone"] = connection
        env["rack.early_hints"] = connection if template.key?("rack.early_hints")
        env["gyre.response_trailers"] = connection
        env["rack.response_finished"] = []
        env["rack.after_reply"] = []
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
        env["rack.input"] = Gyre::HTTP::Input.new(connection)
      end
    end
  end
end
