# frozen_string_literal: true

# Ruby's Timeout in a fiber, and Gyre's with_timeout, which distinguishes an outer timeout from an
# inner one.
#
#   ruby -Ilib examples/timeout.rb

require "gyre"
require "timeout"

started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
Gyre.run do |task|
  task.async do
    Timeout.timeout(1) { sleep 10 }
  rescue Timeout::Error => error
    puts "Timeout.timeout: #{error.message}"
  end

  task.async do |own|
    own.with_timeout(0.5) do
      own.with_timeout(5) { sleep 10 }
    rescue Gyre::TimeoutError
      puts "never printed: the inner one has time enough"
    end
  rescue Gyre::TimeoutError => error
    puts "with_timeout: the outer one, #{error.message}"
  end
end
puts format("both in %.2f s", Process.clock_gettime(Process::CLOCK_MONOTONIC) - started)
