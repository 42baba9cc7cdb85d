# frozen_string_literal: true

# Child processes inside Async's tasks: system, backticks, Process.wait and a pipe to one, together
# in about half a second.
#
#   ruby -Ilib examples/async/child_processes.rb

require "gyre/async"
require "async"

started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
Async do |task|
  task.async { system("sleep 0.5") && puts("system: #{$?.exitstatus}") }
  task.async { puts "backticks: #{`sleep 0.5; echo hello`}" }
  task.async do
    _, status = Process.wait2(Process.spawn("sleep 0.5; exit 3"))
    puts "Process.wait: #{status.exitstatus}"
  end
  task.async do
    IO.popen("sleep 0.5; tr a-z A-Z", "r+") do |pipe|
      pipe.write("louder")
      pipe.close_write
      puts "IO.popen: #{pipe.read}"
    end
  end
end
puts format("4 processes in %.2f s", Process.clock_gettime(Process::CLOCK_MONOTONIC) - started)
