# frozen_string_literal: true

# A program written for Dalli; only its first line, `require "dalli"`, was changed.
#
#     ruby -Ilib examples/memcached_from_dalli.rb
#
# Uses memcached at MEMCACHE_SERVERS, or at 127.0.0.1:11211.

require "gyre/memcached/dalli"

Price = Struct.new(:shop, :euros)

cache = Dalli::Client.new(nil, namespace: "memcached_from_dalli:#{Process.pid}", expires_in: 60)

price = cache.fetch("vorpal blade") { Price.new("Tumtum Trading", 23.5) } # any object, by Marshal
puts "#{price.shop}: #{price.euros}"

cache.set("visits", "0", nil, raw: true)
threads = Array.new(4) { Thread.new { 25.times { cache.incr("visits") } } }
threads.each(&:join)
puts "visits: #{cache.get("visits")}"

cache.set_multi({ "one" => 1, "two" => 2, "three" => 3 })
puts cache.get_multi("one", "two", "four").sort_by(&:last).map { |key, value| "#{key}=#{value}" }.join(" ")

cache.cas("one") { |value| value + 10 }
puts "one: #{cache.get("one")}"

cache.delete_multi(["vorpal blade", "visits", "one", "two", "three"])
puts "left: #{cache.get_multi("one", "two", "three").size}"
cache.close
