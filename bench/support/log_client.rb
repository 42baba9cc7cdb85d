# frozen_string_literal: true

# A process of bench/log: logs COUNT messages of SIZE bytes with one client, after a smaller pass to
# warm up, and prints what it took as JSON. The messages are log_load.c's, so that it can verify
# them. Arguments: CLIENT PORT SIZE COUNT FOLDER. It prints "ready" and waits for a line on standard
# input before the measured pass.

require "json"

client_name, port, size, count, folder = ARGV
size = size.to_i
count = count.to_i
filler = ("a".."z").to_a.join * ((size / 26) + 2)
messages = Array.new(count) { |number| format("%010d", number) << filler[(number + 10) % 26, size - 10] }

client =
  if client_name == "analogger"
    require "swiftcore/Analogger/Client"
    Swiftcore::Analogger::Client.new("bench", "127.0.0.1", port.to_i)
  else
    require "gyre/log/client"
    Gyre::Log::Client.new("bench", host: "127.0.0.1", port: port.to_i, acknowledged: client_name == "acknowledged", spool: folder)
  end
# Analogger's client has written when log returns; it has nothing to flush.
flush = client.respond_to?(:flush) ? -> { client.flush(60) || abort("not flushed: #{client.stats}") } : -> {}

# A severity that none of the servers here writes.
20_000.times { |number| client.log("trace", messages[number % count]) }
flush.call
GC.start
puts "ready"
$stdout.flush
$stdin.gets

def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
def cpu = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)

begin_s = now
begin_cpu_s = cpu
messages.each { |message| client.log("info", message) }
logged_s = now - begin_s
flush.call
flushed_s = now - begin_s
puts JSON.generate(logged_s: logged_s, flushed_s: flushed_s, cpu_s: cpu - begin_cpu_s)
$stdout.flush
$stdin.gets # the connection stays until everything is in the file
client.close
