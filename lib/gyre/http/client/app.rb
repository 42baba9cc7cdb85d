# frozen_string_literal: true

# Calls a Rack app instead of a server, for tests. Acts as pool, connection and exchange.

require "gyre/http/client/errors"
require "stringio"

module Gyre
  module HTTP
    class Client
      class App
        TOKEN = /\A[!#$%&'*+.^_`|~0-9a-z-]+\z/i.freeze
        private_constant :TOKEN

        attr_reader :fields, :origin, :status, :headers, :trailers

        def initialize(app, origin, fields)
          @app = app
          @origin = origin
          @fields = { **origin.fields, **fields }.compact.freeze
        end

        def take(request, _safe) = request.connection = App.new(@app, @origin, @fields)
        def give(_request) = nil
        def detach(_connection) = nil
        def close = nil
        def idle = 0
        def last_use = 0
        def sweep = nil
        def retire = false
        def used? = false
        def protocol = "HTTP/1.1"

        def request(method, target, headers, body, _until_s)
          check(method, target, headers)
          @status, given, @body = @app.call(env(method, target, headers, body))
          @headers = given.to_h { |name, value| [name.downcase, name.casecmp?("set-cookie") ? Array(value) : Array(value).join(", ")] }
          @pieces = method == "HEAD" || [204, 304].include?(@status) ? [] : pieces.map(&:b).reject(&:empty?)
          cancel if @pieces.empty?
          self
        end

        def head = headers
        def read(_timeout_s = nil) = @pieces&.shift || cancel

        def over? = @over

        def cancel
          @over = true
          @body.close if @body.respond_to?(:close)
          @body = @pieces = nil
        end

        private

        # Refuses the arguments that a connection refuses.
        def check(method, target, headers)
          raise ArgumentError, "#{method.inspect} is not an HTTP method" unless method.match?(TOKEN)
          raise ArgumentError, "#{target.inspect} is not the target of a request: escape it first" if target.match?(/[\0-\x20\x7f]/)

          headers.each do |name, value|
            raise ArgumentError, "#{name.inspect} is not the name of a header" unless name.match?(TOKEN)
            raise ArgumentError, "header #{name}: its value has a control byte" if Array(value).any? { |text| text.b.match?(/[\0\r\n]/n) }
          end
        end

        # Returns the body's pieces. A streaming body runs to its end first.
        def pieces
          return [].tap { |pieces| @body.each { |piece| pieces << piece } } if @body.respond_to?(:each)

          stream = StringIO.new("".b)
          @body.call(stream)
          [stream.string]
        end

        def env(method, target, headers, body)
          path, _, query = target.partition("?")
          input = "".b
          body.is_a?(String) ? input << body : body&.each { |piece| input << piece }
          env = { "REQUEST_METHOD" => method, "SCRIPT_NAME" => "", "PATH_INFO" => path, "QUERY_STRING" => query, "SERVER_PROTOCOL" => "HTTP/1.1",
                  "SERVER_NAME" => origin.host, "SERVER_PORT" => origin.port.to_s, "rack.url_scheme" => origin.scheme,
                  "rack.input" => StringIO.new(input), "rack.errors" => $stderr }
          env["CONTENT_LENGTH"] = input.bytesize.to_s if body
          headers.each do |name, value|
            key = name.upcase.tr("-", "_")
            env[%w[CONTENT_TYPE CONTENT_LENGTH].include?(key) ? key : "HTTP_#{key}"] = Array(value).join(", ")
          end
          env
        end
      end
    end
  end
end
