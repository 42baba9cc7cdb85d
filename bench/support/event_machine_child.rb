# frozen_string_literal: true

# A process of bench/event_machine without a network: timers or ticks, a pass to warm up and then
# five, of which the median counts. Prints its times as JSON. Arguments: WORK COUNT.

require "eventmachine"
require "json"

# The measured pieces of work. Each returns once `count` callbacks have run.
module Work
  module_function

  # Timers of up to half a second, all set at once.
  def timers(count)
    random = Random.new(1)
    fired = 0
    EM.run do
      count.times { EM.add_timer(random.rand * 0.5) { EM.stop if (fired += 1) == count } }
    end
    fired
  end

  # Ten chains in which each tick asks for the next.
  def ticks(count)
    ran = 0
    tick = lambda do
      ran += 1
      ran >= count ? (EM.stop if ran == count) : EM.next_tick(&tick)
    end
    EM.run { 10.times { EM.next_tick(&tick) } }
    ran
  end
end

work, count = ARGV
count = Integer(count)
EM.epoll
EM.set_max_timers(count * 2)
Work.public_send(work, count)
passes = Array.new(5) do
  GC.start
  begin_s = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  begin_cpu_s = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
  ran = Work.public_send(work, count)
  cpu_s = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - begin_cpu_s
  abort "#{ran} callbacks of #{count}" if ran < count
  { wall_s: Process.clock_gettime(Process::CLOCK_MONOTONIC) - begin_s, cpu_s: cpu_s }
end
puts JSON.generate(passes.sort_by { |pass| pass[:cpu_s] }[passes.size / 2])
