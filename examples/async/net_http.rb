# frozen_string_literal: true

# Net::HTTP inside Async's tasks: five requests to a shop that answers after 0.5 s, all in 0.5 s.
#
#   ruby -Ilib examples/async/net_http.rb

require "gyre/async"
require "async"
require "net/http"
require_relative "../support/slow_shop"

shop = SlowShop.open

started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
Async do |task|
  questions = %w[tea coffee milk sugar bread].map do |good|
    task.async { Net::HTTP.get(URI("#{shop}/#{good}")) }
  end
  questions.each { |question| puts question.wait }
end
puts format("5 requests in %.2f s", Process.clock_gettime(Process::CLOCK_MONOTONIC) - started)
