# frozen_string_literal: true

# Serves an app in a thread of this process, as http/serving.rb does, and talks HTTP/2 to it. No
# test itself.

require "http/serving"
require "support/engines"
require "support/h2_client"

module GyreTest
  # For test classes. Plain connections speak HTTP/2 by prior knowledge, those over TLS by ALPN.
  module H2Serving
    include HTTPServing

    # Where HTTP/2 was not built in there is nothing to test.
    BACKENDS = defined?(Gyre::HTTP::H2) && Gyre::HTTP::H2.available? ? Engines::NATIVE : []
    warn "tests: this build has no HTTP/2: its tests are left out" if BACKENDS.empty?

    # Returns a server's certificate, and its protocols.
    def self.identity
      { **HTTPServing.identity, alpn: %w[h2 http/1.1] }
    end

    def serve(app = nil, identity: H2Serving.identity, **options, &block)
      super(app, identity: identity, **options, &block)
    end

    def connect(served, settings: {})
      plain = served.plain_socket
      client = H2Client.new(self, tls? ? H2Client.tls(plain) : plain, settings: settings)
      @clients << client
      client
    end

    # A client of HTTP/1 on the same listener.
    def connect_http1(served)
      HTTPServing::Client.new(self, served.socket).tap { |client| @clients << client }
    end

    def get(served, line = "GET / HTTP/1.1", body = "", **fields)
      client = connect(served)
      client.get(line, body, **fields)
    ensure
      client&.close
    end
  end
end
