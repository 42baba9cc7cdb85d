# frozen_string_literal: true

# A process of bench/scheduler: runs one micro-benchmark under one scheduler, a smaller pass to warm
# up and then the measured one, and prints operations, CPU and wall time as JSON. Arguments:
# SCHEDULER BENCHMARK [COUNT].

require "json"
require_relative "scheduler_work"
require_relative "schedulers"

name, benchmark, count = ARGV
method, usual_count, = Bench::SchedulerWork::ALL.fetch(benchmark)
count = (count || usual_count).to_i
result = nil
failure = nil

thread = Thread.new do
  Fiber.set_scheduler(Bench::Schedulers.create(name))
  Fiber.schedule do
    Bench::SchedulerWork.public_send(method, [count / 10, 1000].max)
    GC.start
    begin_s = Bench::SchedulerWork.now
    begin_cpu_s = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
    Bench::SchedulerWork.public_send(method, count)
    result = { operations: count, cpu_s: Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - begin_cpu_s,
               wall_s: Bench::SchedulerWork.now - begin_s }
  rescue StandardError, NotImplementedError => e
    failure = e
  end
end
thread.report_on_exception = false
thread.join
abort failure.full_message(highlight: false) if failure
abort "the benchmark did not finish" unless result
puts JSON.generate(result)
