# frozen_string_literal: true

# The showcase, served by `gyre serve examples/showcase/config.ru` in a process of its own, and
# talked to over HTTP. For its tests; no test itself.

require_relative "../web/serving"
require "json"
require "time"

module GyreTest
  # Starts the showcase and talks to it.
  module Showcase
    include Serving

    FOLDER = File.join(Helpers::ROOT, "examples/showcase")
    # How much more memory the server may take while 20 MB go through: so little that it cannot have
    # kept them.
    GROWTH_BYTES_LIMIT = 6_000_000

    BYTES = { "content-type" => "application/octet-stream" }.freeze
    # Garbage is collected early, so that what a test counts is what the server keeps.
    EARLY_COLLECTION = %w[
      RUBY_GC_MALLOC_LIMIT RUBY_GC_MALLOC_LIMIT_MAX RUBY_GC_OLDMALLOC_LIMIT RUBY_GC_OLDMALLOC_LIMIT_MAX
    ].to_h { |name| [name, "1000000"] }.freeze

    # A line of a streamed answer, and how many seconds after the request it came.
    Line = Struct.new(:text, :at_s)

    # Returns whether the cache's panel has something to measure.
    def self.memcached?
      folders = ENV.fetch("PATH", "").split(File::PATH_SEPARATOR)
      ENV.key?("MEMCACHE_SERVERS") || folders.any? { |folder| File.executable?(File.join(folder, "memcached")) }
    end

    # The same app, and everything that it answers looked at by Rack's own check.
    LINTED = <<~RUBY
      require "rack/lint"
      require #{File.join(FOLDER, "lib/showcase").dump}
      use Rack::Lint
      run Showcase::App.new
    RUBY

    # `also`: what the server may say.
    def with_showcase(file = File.join(FOLDER, "config.ru"), app: nil, env: {}, also: nil)
      serve(file, "--log-format", "none", "--shutdown-timeout", "0", app: app, env: { **EARLY_COLLECTION, **env }) do |program|
        yield program
        # The watchdog speaks of time, which passes on a machine that stands still.
        refute_match(/gyre(?: log)?: (?!watchdog)/, program.text(:err).gsub(also || "", ""), "the server complained")
      end
    end

    # A request whose answer is looked at while it comes.
    def get(program, path, headers = {}, &block)
      answer = nil
      http(program) { |http| http.request_get(path, headers) { |response| (answer = response).read_body(&block) } }
      answer
    end

    def http(program, &block)
      Net::HTTP.start("127.0.0.1", program.port, nil, read_timeout: 100, &block)
    end

    def lines(program, path, headers = {})
      started = monotonic_s
      found = []
      rest = +""
      get(program, path, headers) do |piece|
        rest << piece
        found << Line.new(rest.slice!(/\A.*\n/).chomp, monotonic_s - started) while rest.include?("\n")
        return found if block_given? && yield(found)
      end
      found
    end

    # Follows the log.
    def follow(program, path = "/log", headers = {})
      rest = +""
      get(program, path, headers) do |piece|
        rest << piece
        while (event = rest.slice!(/\A.*?\n\n/m))
          data = event[/^data: (.*)/, 1] or next
          return if yield event[/^id: (.*)/, 1]&.to_i, JSON.parse(data.force_encoding(Encoding::UTF_8))
        end
      end
    end

    # Returns all lines up to one with that message.
    def followed(program, message, path = "/log", headers = {})
      found = []
      follow(program, path, headers) { |number, entry| number && found.push([number, entry]) && entry["message"] == message }
      found
    end

    def log(program, message, severity = "info")
      http(program) { |http| http.post("/log?#{severity}", message, { "content-type" => "text/plain" }) }
    end

    # Lays a trap for a server that takes the Host header for its own address.
    def with_forged_host
      trap = TCPServer.new("127.0.0.1", 0)
      result = yield "127.0.0.1:#{trap.local_address.ip_port}"
      assert_equal :wait_readable, trap.accept_nonblock(exception: false), "the server asked the forged host"
      result
    ensure
      trap&.close
    end

    # The most memory that the process ever had resident (proc(5), status).
    def peak_bytes(program)
      Integer(File.read("/proc/#{program.pid}/status")[/^VmHWM:\s+(\d+) kB/, 1]) * 1024
    rescue Errno::ENOENT
      skip "this system has no /proc to read a process's memory from"
    end

    def events(lines)
      lines.filter_map { |line| line.text[/\Adata: (.*)/, 1] }.map { |text| JSON.parse(text) }
    end

    # Two, the last of them while others are there.
    def figures(program)
      events(lines(program, "/figures") { |found| events(found).then { |all| all.size >= 2 && all.last["connections"] >= 3 } })
    end

    def check_figures(events)
      assert_operator events.size, :>=, 2
      assert_operator Time.iso8601(events.first["time"]), :<, Time.iso8601(events.last["time"])
      event = events.last
      assert_equal backend, event["backend"]
      %w[requests connections tasks turns resident_bytes].each { |name| assert_operator event[name], :>, 0, name }
    end

    def check_poem(lines)
      assert_equal File.read(File.join(FOLDER, "jabberwocky.txt")).lines(chomp: true),
                   lines.map { |line| line.text.dup.force_encoding(Encoding::UTF_8) }
      assert_operator lines.first.at_s, :<, lines.last.at_s - 2, "the first line waited for others"
      assert_operator lines.last.at_s, :>, 2.5, "the last line was there with the first"
      assert_operator lines.map { |line| line.at_s.round(1) }.uniq.size, :>, 4, "lines came together"
    end

    def check_comparison(lines, order, least_s)
      news = lines.map { |line| JSON.parse(line.text) }
      assert_equal order + ["done"], news.map { |item| item["event"] }
      assert_operator news.last["at_s"], :>=, least_s
      assert_operator lines.last.at_s, :>=, least_s
      assert_operator lines.first.at_s, :<, lines.last.at_s - 0.5, "the first news waited for the last"
    end
  end
end
