# frozen_string_literal: true

# A thousand requests to this server, all waiting at once, and its memory meanwhile. Both ends are
# in one process and on one loop. Reports line by line (JSON, an object a line).

require "gyre"
require "gyre/http/client"
require "json"
require_relative "memory"
require_relative "own_server"

module Showcase
  # GET /waiting asks GET /wait.
  class Waiting
    PATH = "/wait"
    HEADERS = { "content-type" => "application/x-ndjson", "cache-control" => "no-store" }.freeze
    MOST = 1000
    # Descriptors for everything else in the server.
    OTHERS = 200
    WAIT_S = 1

    def initialize
      @lock = Mutex.new # one visitor at a time
    end

    def call(env)
      return wait if env["PATH_INFO"] == PATH

      url = OwnServer.url(env)
      figures = -> { OwnServer.figures(env).slice(:tasks, :connections) }
      [200, HEADERS.dup, ->(stream) { @lock.synchronize { answer(stream, url, figures) } }]
    end

    private

    def wait
      sleep WAIT_S # only this fiber waits
      [204, {}, []]
    end

    def ask(url, count)
      client = Gyre::HTTP::Client.new(url, proxy: nil, connections_limit: count, timeout_s: 60)
      Gyre.run do |task|
        requests = Array.new(count) { task.async { client.get(PATH).check } }
        watch = task.async(transient: true) { loop { (sleep 0.2) && yield } }
        requests.each(&:wait)
        watch.stop
      end
    ensure
      client&.close
    end

    # A request needs a descriptor at each end.
    def answer(stream, url, figures)
      count = [MOST, (Process.getrlimit(:NOFILE).first - OTHERS) / 2].min
      began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      tell = lambda do |event|
        seconds = (Process.clock_gettime(Process::CLOCK_MONOTONIC) - began).round(2)
        stream.write("#{JSON.generate({ event: event, requests: count, seconds: seconds, resident_bytes: Memory.resident_bytes, **figures.call })}\n")
      end
      tell.call("begin")
      ask(url, count) { tell.call("waiting") }
      tell.call("done")
    ensure
      stream.close
    end
  end
end
