# frozen_string_literal: true

# Asks all shops for their price, one after another or all at once, and reports line by line (JSON,
# an object a line) when each was asked and when it answered. The two ways differ in one method.

require "gyre/http/client"
require "json"
require_relative "own_server"
require_relative "shops"

module Showcase
  # GET /comparison?one-by-one and GET /comparison?at-once; with &limited each shop has 1.6 seconds.
  class Comparison
    WAYS = { "one-by-one" => :one_by_one, "at-once" => :at_once }.freeze
    HEADERS = { "content-type" => "application/x-ndjson", "cache-control" => "no-store" }.freeze

    LIMIT_S = 1.6 # the slowest shop needs 1.8

    def call(env)
      name, limited = env["QUERY_STRING"].split("&")
      way = WAYS[name]
      return [404, { "content-type" => "text/plain" }, ["Ask for ?#{WAYS.keys.join(" or ?")}.\n"]] unless way

      @client ||= Gyre::HTTP::Client.new(OwnServer.url(env), proxy: nil)
      limit_s = limited ? LIMIT_S : 30
      [200, HEADERS.dup, ->(stream) { compare(way, stream, env["rack.logger"]) { |shop| price(shop, limit_s) } }]
    end

    private

    def price(shop, limit_s) = @client.get(shop.path, timeout_s: limit_s).check.json.fetch("price")

    # 4.5 seconds: asks each shop after the answer of the one before.
    def one_by_one(shops, &block)
      shops.each(&block)
    end

    # 1.8 seconds: each shop has a task, so all wait at the same time. If one fails, or the visitor
    # leaves, `wait` raises, and the other tasks are stopped with the block.
    def at_once(shops)
      return shops.map { |shop| Thread.new { yield shop } }.each(&:join) unless Fiber.scheduler # not on Gyre

      Gyre.run do |task|
        shops.map { |shop| task.async(shop.name) { yield shop } }.each(&:wait)
      end
    end

    def compare(way, stream, log)
      started = monotonic_now
      lock = Mutex.new # keeps lines of several tasks apart
      tell = lambda do |news|
        lock.synchronize { stream.write("#{JSON.generate(news.merge(at_s: (monotonic_now - started).round(3)))}\n") }
      end

      __send__(way, SHOPS) do |shop|
        tell.call(event: "asked", shop: shop.name)
        price = yield shop
        tell.call(event: "answered", shop: shop.name, price: price)
      rescue Gyre::HTTP::Client::Error => error
        tell.call(event: "failed", shop: shop.name, error: error.message)
        raise
      end
      tell.call(event: "done")
      log&.info("three shops asked #{way.to_s.tr("_", " ")} in #{(monotonic_now - started).round(1)} s")
    rescue Gyre::HTTP::Client::Error
      nil # was told
    ensure
      stream.close
    end

    def monotonic_now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
