# frozen_string_literal: true

# Five child processes that take one second each, in about one second: system, backticks,
# Process.wait, IO.popen.
#
#   ruby -Ilib examples/child_processes.rb

require "gyre"

started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
Gyre.run do |task|
  task.async { system("sleep 1") && puts("system: #{$?.exitstatus}") }
  task.async { puts "backticks: #{`sleep 1; echo hello`}" }
  task.async do
    _, status = Process.wait2(Process.spawn("sleep 1; exit 3"))
    puts "Process.wait: #{status.exitstatus}"
  end
  task.async { puts "IO.popen: #{IO.popen("sleep 1; echo world", &:read)}" }
  task.async do
    Process.detach(Process.spawn("sleep 1")).join
    puts "Process.detach"
  end
end
puts format("5 processes in %.2f s", Process.clock_gettime(Process::CLOCK_MONOTONIC) - started)
