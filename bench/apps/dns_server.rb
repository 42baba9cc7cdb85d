# frozen_string_literal: true

# The DNS servers of bench/dns that are written in Ruby. Arguments: SUBJECT PORT [ZONE-FILE
# [NUMBER-OF-ZONES] | UPSTREAM-PORT].

require "resolv"

subject, port, given, zones = ARGV
port = Integer(port)
IN = Resolv::DNS::Resource::IN
NAME = /\Aname\d+\.bench\.test\z/i.freeze

# The same program for both: they have the same methods.
RULES = {
  "block" => proc do
    match(NAME, IN::A) { |transaction| transaction.respond!("192.0.2.1", ttl: 60) }
    otherwise { |transaction| transaction.fail!(:NXDomain) }
  end,
  "waiting" => proc do
    match(NAME, IN::A) do |transaction|
      sleep 0.1
      transaction.respond!("192.0.2.1", ttl: 60)
    end
  end
}.freeze

kind = subject[/-(\w+)\z/, 1]
if subject.start_with?("gyre")
  require "gyre"
  require "gyre/dns"
  rules = RULES[kind] || {
    "zone" => proc { zone("bench.test", given) }, "zones" => proc { zones.to_i.times { |index| zone("zone#{index}.test", given) } },
    "passthrough" => proc { upstream("127.0.0.1:#{given}") }, "forwarder" => proc { upstream("127.0.0.1:#{given}") }
  }.fetch(kind)
  Gyre::DNS.run("127.0.0.1:#{port}", waiting_limit: 20_000, **(kind == "passthrough" ? { cache_bytes: 0 } : {}), &rules)
else
  require "rubydns"
  Console.logger.off! if Console.logger.respond_to?(:off!)
  resolver = Async::DNS::Resolver.new(Async::DNS::Endpoint.for("127.0.0.1", port: given.to_i))
  rules = RULES[kind] || proc { otherwise { |transaction| transaction.passthrough!(resolver) } }
  RubyDNS.run(Async::DNS::Endpoint.for("127.0.0.1", port: port), &rules)
end
