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
      end
    end
  end
end
