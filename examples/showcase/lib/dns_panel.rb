# frozen_string_literal: true

# A DNS server with rules in Ruby, asked over UDP: it and its client are fibers of this process, and
# both end with the request.

require "gyre/dns"
require "gyre/dns/dig_text"
require "uri"

module Showcase
  # GET /dns?name=…
  class DNSPanel
    IN = Resolv::DNS::Resource::IN
    HEADERS = { "content-type" => "text/plain; charset=utf-8", "cache-control" => "no-store" }.freeze

    RULES = proc do
      match(/\A([^.]+)\.backwards\z/, IN::TXT) { |transaction, match| transaction.respond!(match[1].reverse, ttl: 60) }
      match(/\A(\d{1,2})\.wait\z/, IN::TXT) do |transaction, match|
        sleep match[1].to_i / 10r
        transaction.respond!("waited for #{match[1]} tenths of a second", ttl: 0)
      end
      otherwise { |transaction| transaction.fail!(:NXDomain) }
    end

    def call(env)
      name = URI.decode_www_form(env["QUERY_STRING"].to_s).assoc("name")&.last
      query = Gyre::DNS::Message.query(name.to_s, "TXT")
      [200, HEADERS.dup, [ask(query.encode)]]
    rescue ArgumentError
      [400, HEADERS.dup, ["That is not a domain name.\n"]]
    end

    private

    def ask(bytes)
      server = Gyre::DNS::Server.new("udp://127.0.0.1:0", &RULES)
      reply = nil
      server.run do
        upstream = Gyre::DNS::Upstream.new("127.0.0.1:#{server.port}")
        reply = upstream.forward(bytes)
      ensure
        upstream&.close
        server.stop
      end
      reply ? Gyre::DNS::DigText.message(Gyre::DNS::Message.parse(reply)) : "No answer.\n"
    end
  end
end
