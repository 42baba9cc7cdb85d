# frozen_string_literal: true

# A process of bench/client: a piece of work with one client, a smaller pass to warm up and then the
# measured one; prints times and memory as JSON. Arguments: CLIENT WORK URL PROTOCOL COUNT FILE.

require "json"
require_relative "client_work"

BURSTS = 4 # of idle connections; the one before them makes room for the garbage of each

name, work, url, protocol, count, file = ARGV
count = count.to_i
client = Bench::ClientWork.create(name, url, protocol.to_sym)

measured = lambda do |&part|
  GC.start
  begin_s = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  begin_cpu_s = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
  part.call
  { wall_s: Process.clock_gettime(Process::CLOCK_MONOTONIC) - begin_s, cpu_s: Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - begin_cpu_s }
end
memory = lambda do
  4.times { GC.start }
  File.read("/proc/self/status")[/^VmRSS:\s*(\d+)/, 1].to_i
end

result = nil
client.around do
  result = case work
           when "small"
             2.times { client.get("/", [count / 10, 640].max, 64, 26) }
             measured.call { client.get("/", count, 64, 26) }
           when "down"
             check = -> { Bench::ClientWork.check(client.down("/100m"), 100_000_000) }
             check.call
             measured.call { count.times { check.call } }
           when "up"
             put = -> { File.open(file, "rb") { |io| client.up("/up", io) } }
             put.call
             measured.call { count.times { put.call } }
           when "waiting"
             client.get("/?0", 100, 100, 2)
             measured.call { client.get("/?1", count, count, 2) }
           when "fan-out"
             client.fan_out(%w[/?0 /?0 /?0], 2)
             measured.call { client.fan_out(%w[/?0.1 /?0.2 /?0.3], 2) }
           when "idle"
             kb = Array.new(1 + BURSTS) { client.hold("/", count / BURSTS) && memory.call }
             { each_kb: (kb.last - kb.first) / count.to_f }
           end
end
abort "the benchmark did not finish" unless result
puts JSON.generate(result)
