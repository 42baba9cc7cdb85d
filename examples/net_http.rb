# frozen_string_literal: true

# Ruby's Net::HTTP, several times at once: five requests to a shop that answers after 0.5 s. One
# after another they take 2.5 s, as tasks 0.5 s.
#
#   ruby -Ilib examples/net_http.rb

require "gyre"
require "net/http"
require_relative "support/slow_shop"

shop = SlowShop.open

started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
Gyre.run do |task|
  questions = %w[tea coffee milk sugar bread].map do |good|
    task.async { Net::HTTP.get(URI("#{shop}/#{good}")) }
  end
  questions.each { |question| puts question.wait }
end
puts format("5 requests in %.2f s", Process.clock_gettime(Process::CLOCK_MONOTONIC) - started)
