# frozen_string_literal: true

# A process of bench/dns: resolves names, IPv4 and IPv6, all at once, by one of the ways, and prints
# the times as JSON. Arguments: WAY COUNT. The system's resolv.conf names the server.

require "json"
require "socket"

way, count = ARGV
count = Integer(count)
THREADS = 100

# Calls the block for each name in threads, as programs without a loop have it.
def in_threads(names)
  queue = Queue.new(names).close
  Array.new(THREADS) { Thread.new { while (name = queue.pop) do yield name end } }.each(&:join)
end

resolve_all = case way
              when "gyre"
                require "gyre"
                require "gyre/dns"
                Gyre::DNS.host_names = :never
                resolver = Gyre::DNS::Resolver.new(hosts: nil)
                ->(names) { Gyre.run { |task| names.map { |name| task.async { resolver.addresses(name).size } }.each(&:wait) } }
              when "gyre-names", "gyre-getaddrinfo"
                require "gyre"
                require "gyre/dns"
                Gyre::DNS.host_names = way == "gyre-names" ? :exact : :never
                lambda do |names|
                  Gyre.run { |task| names.map { |name| task.async { Addrinfo.getaddrinfo(name, nil, nil, :STREAM).size } }.each(&:wait) }
                end
              when "resolv"
                require "resolv"
                resolver = Resolv::DNS.new
                ->(names) { in_threads(names) { |name| resolver.getaddresses(name).size } }
              when "getaddrinfo"
                ->(names) { in_threads(names) { |name| Addrinfo.getaddrinfo(name, nil, nil, :STREAM).size } }
              when "async-dns"
                require "async/dns"
                lambda do |names|
                  resolver = Async::DNS::Resolver.new(Async::DNS::Endpoint.for("127.0.0.53"))
                  Sync { |task| names.map { |name| task.async { resolver.addresses_for(name).size } }.each(&:wait) }
                end
              else abort "unknown way: #{way}"
              end

names = ->(from, size) { Array.new(size) { |index| "name#{from + index}.bench.test" } }
resolve_all.call(names.call(0, count))
GC.start
begin_s = Process.clock_gettime(Process::CLOCK_MONOTONIC)
begin_cpu_s = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
resolve_all.call(names.call(count, count))
puts JSON.generate(wall_s: Process.clock_gettime(Process::CLOCK_MONOTONIC) - begin_s,
  cpu_s: Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - begin_cpu_s)
