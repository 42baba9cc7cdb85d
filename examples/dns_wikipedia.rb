# frozen_string_literal: true

# Wikipedia over DNS: a TXT question for the name of an article, below the domain "wp", is answered
# with its summary. Each answer waits for an HTTP request, and thousands wait at once in one thread.
#
#     ruby examples/dns_wikipedia.rb          then: dig @127.0.0.1 -p 5300 TXT Ruby_programming_language.wp
#
# The address to listen at may be given, and the site in WIKIPEDIA.
require "gyre/dns"
require "gyre/http/client"
require "json"

IN = Resolv::DNS::Resource::IN
SITE = ENV.fetch("WIKIPEDIA", "https://en.wikipedia.org")
TEXT_BYTES = 255 # of one text of a TXT record

# Cuts a text into pieces of whole characters.
def pieces(text)
  text.each_char.with_object([+""]) do |char, all|
    all << +"" if all.last.bytesize + char.bytesize > TEXT_BYTES
    all.last << char
  end
end

client = Gyre::HTTP::Client.new(SITE, timeout_s: 5)
server = Gyre::DNS::Server.new(ARGV.fetch(0, "127.0.0.1:5300")) do
  match(/\A([^.]+)\.wp\z/, IN::TXT) do |transaction, match|
    response = client.get("/api/rest_v1/page/summary/#{match[1]}")
    next transaction.fail!(:NXDomain) if response.status == 404

    transaction.respond!(*pieces(response.json["extract"]), ttl: 3600)
  rescue Gyre::HTTP::Client::Error, JSON::ParserError
    transaction.fail!(:ServFail)
  end
end
server.run do
  puts "listens on #{server.endpoints.join(", ")}"
  $stdout.flush
end
