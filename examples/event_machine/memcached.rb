# frozen_string_literal: true

# An asynchronous memcached client: callbacks in the order of the commands, all on one connection.
#
#     ruby -Ilib exe/gyre em examples/event_machine/memcached.rb
#
# Uses memcached at MEMCACHE_SERVERS, or at 127.0.0.1:11211.

require "eventmachine"

host, port = ENV.fetch("MEMCACHE_SERVERS", "127.0.0.1:11211").split(":")

EM.run do
  cache = EM::Protocols::Memcache.connect(host, Integer(port))
  cache.set(:a, "hello")
  cache.set(:b, "hi")
  cache.set(:empty, "") { |stored| puts "stored: #{stored}" }
  cache.delete(:missing) { |found| puts "missing was there: #{found}" }
  cache.get(:a) { |value| puts "a: #{value}" }
  cache.get(:a, :missing, :empty) { |*values| p values }
  cache.get_hash(:a, :b) do |values|
    p values
    EM.stop
  end
  puts "asked"
end
