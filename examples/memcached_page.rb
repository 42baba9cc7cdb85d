# frozen_string_literal: true

# A page of 50 parts, each kept in memcached. Each part is a task that asks for its own and makes it
# where it is missing; the client sends together what the tasks ask for at the same time.
#
#     ruby -Ilib examples/memcached_page.rb
#
# memcached is looked for at 127.0.0.1:11211, or where MEMCACHE_SERVERS is set.

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
