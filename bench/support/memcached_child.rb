# frozen_string_literal: true

# A process of bench/memcached: sets, gets and deletes small values with one client, a smaller pass
# to warm up and then the measured one, and prints the times as JSON. Arguments: CLIENT PORT
# COUNT PID, where PID is memcached's, whose CPU time is read.

require "json"
require_relative "memcached_work"
require_relative "process_tree"

name, port, count, pid = ARGV
server = Bench::ProcessTree.new(pid.to_i)
work = Bench::MemcachedWork.create(name, port.to_i)
keys = Array.new(count.to_i) { |number| "bench:key:#{number}".freeze }
values = Array.new(count.to_i) { |number| "value #{number}".freeze }

pass = lambda do |some_keys, some_values|
  { set_s: -> { work.set(some_keys, some_values) }, get_s: -> { work.get(some_keys, some_values) },
    delete_s: -> { work.delete(some_keys) } }.transform_values do |part|
    GC.start
    begin_s = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    begin_cpu_s = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
    part.call
    [Process.clock_gettime(Process::CLOCK_MONOTONIC) - begin_s, Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - begin_cpu_s]
  end
end

result = nil
work.around do
  warm_up = [count.to_i / 10, 100].max
  pass.call(keys.first(warm_up), values.first(warm_up))
  server_begin_s = server.cpu_s
  times = pass.call(keys, values)
  result = { **times.transform_values(&:first), operations: keys.size * times.size, cpu_s: times.sum { |_, (_, cpu_s)| cpu_s },
             server_cpu_s: server.cpu_s - server_begin_s }
end
abort "the benchmark did not finish" unless result
puts JSON.generate(result)
