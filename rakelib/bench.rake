# frozen_string_literal: true

# The benchmarks of bench/: long runs that need the machine for themselves and write
# bench/results/*.md. BENCHOPTS gives options to the command, e.g. BENCHOPTS="--quick --only
# hello-64".

namespace :bench do
  desc "Measure the HTTP server against nginx, Iodine, Falcon and Puma (BENCHOPTS)"
  task(http: :compile) { ruby "bench/http", *ENV["BENCHOPTS"].to_s.split }

  desc "Measure a Rails app on Gyre and on Puma behind Thruster (BENCHOPTS)"
  task(rails: :compile) { ruby "bench/rails", *ENV["BENCHOPTS"].to_s.split }

  desc "Measure the fiber scheduler against Async and carbon_fiber (BENCHOPTS)"
  task(scheduler: :compile) { ruby "bench/scheduler", *ENV["BENCHOPTS"].to_s.split }

  desc "Measure the keyed loop against Ever's and nio4r's selector (BENCHOPTS)"
  task(loop: :compile) { ruby "bench/loop", *ENV["BENCHOPTS"].to_s.split }

  desc "Measure the log server and client against Analogger and rsyslog (BENCHOPTS)"
  task(log: :compile) { ruby "bench/log", *ENV["BENCHOPTS"].to_s.split }

  desc "Measure transports and datagrams against C, Async and EventMachine (BENCHOPTS)"
  task(net: :compile) { ruby "bench/net", *ENV["BENCHOPTS"].to_s.split }

  desc "Measure the memcached client against Dalli, EventMachine's and a bare socket (BENCHOPTS)"
  task(memcached: :compile) { ruby "bench/memcached", *ENV["BENCHOPTS"].to_s.split }

  desc "Measure programs of EventMachine on Gyre's reactor and on EventMachine's (BENCHOPTS)"
  task(event_machine: :compile) { ruby "bench/event_machine", *ENV["BENCHOPTS"].to_s.split }

  desc "Measure the HTTP client against async-http, httpx, http.rb, Net::HTTP, Typhoeus and h2load (BENCHOPTS)"
  task(client: :compile) { ruby "bench/client", *ENV["BENCHOPTS"].to_s.split }

  desc "Measure WebSockets, broadcast and event streams against Iodine, node's ws, Falcon and C (BENCHOPTS)"
  task(realtime: :compile) { ruby "bench/realtime", *ENV["BENCHOPTS"].to_s.split }

  desc "Measure the DNS server and resolver against RubyDNS, dnsmasq, nsd, Resolv and getaddrinfo (BENCHOPTS)"
  task(dns: :compile) { ruby "bench/dns", *ENV["BENCHOPTS"].to_s.split }

  desc "Measure what blocks the loop: common clients, waits and work (BENCHOPTS names some)"
  task(blocking: :compile) { ruby "bench/blocking", *ENV["BENCHOPTS"].to_s.split }
end

desc "All benchmarks; about an hour"
task bench: %w[bench:http bench:scheduler bench:loop bench:log bench:net bench:memcached bench:client bench:event_machine bench:realtime
               bench:dns bench:blocking bench:rails]
