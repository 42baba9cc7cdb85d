# frozen_string_literal: true

# A page of 50 parts, each cached in memcached. A task for each part fetches it, or makes it if
# missing; the client sends the tasks' requests together.
#
#     ruby -Ilib examples/memcached_page.rb
#
# Uses memcached at MEMCACHE_SERVERS, or at 127.0.0.1:11211.

require "gyre"
require "gyre/memcached"

PARTS = 50

def render(part)
  sleep 0.1 # a slow template
  "<li>part #{part}</li>"
end

def page(cache)
  Gyre.run do |task|
    parts = Array.new(PARTS) { |part| task.async { cache.fetch("part:#{part}", 60) { render(part) } } }
    parts.map(&:wait).join("\n")
  end
end

def timed(text)
  started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  result = yield
  puts "#{text}: #{result.lines.size} parts in #{((Process.clock_gettime(Process::CLOCK_MONOTONIC) - started) * 1000).round} ms"
  result
end

cache = Gyre::Memcached::Client.new(nil, namespace: "memcached_page:#{Process.pid}")
first = timed("nothing is there, all are made at once") { page(cache) }
second = timed("all are there") { page(cache) }
puts "the same page: #{first == second}"
cache.delete_multi(Array.new(PARTS) { |part| "part:#{part}" })
cache.close
