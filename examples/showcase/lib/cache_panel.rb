# frozen_string_literal: true

# Sets, gets and deletes small values in memcached: one command after another, by many fibers at
# once, and in batches. Reports the time of each way line by line (JSON, an object a line). The
# client sends simultaneous commands together.

require "gyre"
require "gyre/memcached"
require "json"

module Showcase
  # GET /cache
  class CachePanel
    HEADERS = { "content-type" => "application/x-ndjson", "cache-control" => "no-store" }.freeze
    KEYS = Array.new(4_000) { |number| "key-#{number}" }.freeze
    BATCH = 100
    COMMANDS = 3 # set, get, delete
    # The least time for each way; otherwise starting fibers would dominate.
    LEAST_S = 0.5

    WAYS = {
      "one after the other" => ->(cache, keys) { keys.each { |key| use(cache, key) } },
      "16 fibers" => ->(cache, keys) { in_fibers(16, cache, keys) },
      "100 fibers" => ->(cache, keys) { in_fibers(100, cache, keys) },
      "1,000 fibers" => ->(cache, keys) { in_fibers(1000, cache, keys) },
      "batches of 100 keys" => ->(cache, keys) { keys.each_slice(BATCH) { |some| use_many(cache, some) } }
    }.freeze

    class << self
      private

      def in_fibers(count, cache, keys)
        Gyre.run do |task|
          Array.new(count) { |first| task.async { first.step(keys.size - 1, count) { |index| use(cache, keys[index]) } } }.each(&:wait)
        end
      end

      def use(cache, key)
        cache.set(key, "vorpal")
        raise "#{key} was not there" unless cache.get(key) == "vorpal" && cache.delete(key)
      end

      def use_many(cache, keys)
        cache.set_multi(keys.to_h { |key| [key, "vorpal"] })
        raise "not all of #{keys.first} to #{keys.last} were there" unless cache.get_multi(keys).size == keys.size

        cache.delete_multi(keys)
      end
    end

    def initialize(cache)
      @cache = cache
      @lock = Mutex.new # one visitor at a time, as others would disturb the measurement
    end

    def call(_env)
      [200, HEADERS.dup, ->(stream) { answer(stream) }]
    end

    private

    def answer(stream)
      address = @cache.address
      return tell(stream, event: "missing", install: "apt-get install memcached") unless address

      @lock.synchronize { measure(address, stream) }
    ensure
      stream.close
    end

    def measure(address, stream)
      client = Gyre::Memcached::Client.new(address, namespace: "gyre-showcase-#{Process.pid}")
      tell(stream, event: "begin", ways: WAYS.keys)
      WAYS.each do |way, work|
        commands, seconds = repeat { work.call(client, KEYS) }
        tell(stream, event: "took", way: way, commands: commands, seconds: seconds.round(4))
      end
      tell(stream, event: "done")
    rescue Gyre::Memcached::Error => error
      tell(stream, event: "failed", message: error.message)
    ensure
      client&.close
    end

    def repeat
      started = monotonic_now
      commands = 0
      until (seconds = monotonic_now - started) >= LEAST_S && commands.positive?
        yield
        commands += KEYS.size * COMMANDS
      end
      [commands, seconds]
    end

    def tell(stream, **news)
      stream.write("#{JSON.generate(news)}\n")
    end

    def monotonic_now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
