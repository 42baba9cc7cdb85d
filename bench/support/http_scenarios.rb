# frozen_string_literal: true

# What bench/http measures: each scenario has its servers, how to warm one up, how to take one
# sample of it, and the columns of its table. Writes nothing; Bench::Run takes the samples.

require_relative "answers"
require_relative "connections"
require_relative "h2load"
require_relative "servers"
require_relative "suite"
require_relative "wrk"

module Bench
  # A scenario of HTTP servers: each runs, warmed up, until all its rounds are over, or is started
  # for each sample.
  class HttpScenario < Scenario
    def initialize(*, **)
      super
      @running = {}
    end

    def measure(name, settings)
      sample = take(ready(name, settings[:seconds]), settings[:seconds])
    ensure
      stop(name) if fresh? || sample.nil?
    end

    def finish
      @running.each_key.to_a.each { |name| stop(name) }
    end

    # Returns whether each round needs a server that was just started.
    def fresh?
      true
    end

    private

    def ready(name, seconds)
      return @running[name] if @running[name]

      @running[name] = build(name)
      @running[name].start
      warm_up(@running[name], seconds)
      @running[name]
    end

    def build(name) = Servers.build(name)

    def stop(name)
      @running.delete(name)&.stop
    end
  end

  # Requests by wrk (or h2load) over keep-alive connections: speed, CPU time, latency, memory.
  class LoadScenario < HttpScenario
    CPU = Column.new("server CPU, µs a request", :cpu_us, 2)
    COLUMNS = [Column.new("requests/s", :requests_per_s, 0), CPU, Column.new("p50, ms", :p50_ms, 2),
               Column.new("p99, ms", :p99_ms, 2), Column.new("RSS, MB", :rss_mb, 1), Column.new("PSS, MB", :pss_mb, 1),
               Column.new("response head, bytes", :head_bytes, 0)].freeze

    def initialize(key, title, path:, connections:, headers: {}, servers: Servers::NAMES, columns: [], tool: Wrk,
                   stretch: 1, tls: false)
      super(key, title, subjects: servers, columns: COLUMNS.dup.insert(2, *columns))
      @path = path
      @connections = connections
      @headers = headers
      @tool = tool
      @stretch = stretch
      @tls = tls
    end

    def fresh?
      false
    end

    def warm_up(server, seconds)
      check(server)
      @tool.run(server.url(@path), connections: @connections, seconds: seconds, headers: @headers)
    end

    def take(server, seconds)
      head_bytes = check(server)
      cpu_before_s = server.tree.cpu_s
      result = @tool.run(server.url(@path), connections: @connections, seconds: seconds * @stretch, headers: @headers)
      cpu_s = server.tree.cpu_s - cpu_before_s
      { requests_per_s: result.requests_per_s, cpu_us: cpu_s / result.requests * 1e6, p50_ms: result.p50_ms,
        p99_ms: result.p99_ms, gigabytes_per_s: result.bytes / result.seconds / 1e9, head_bytes: head_bytes,
        rss_mb: server.tree.rss_kb / 1024.0, pss_mb: server.tree.pss_kb / 1024.0, errors: result.errors }
    end

    private

    def check(server) = Answers.check(server.port, @path, @headers, tls: @tls)

    def build(name) = Servers.build(name, tls: @tls, files: @path.start_with?("/static/"))
  end

  # Requests by h2load over HTTP/2, some at once on each connection.
  class HTTP2Scenario < LoadScenario
    STREAMS = 10

    def initialize(key, title, **options)
      super(key, title, **options, tool: H2load::Multiplexed.new(STREAMS), servers: %w[nginx gyre falcon])
    end

    private

    def check(server) = Answers.check_http2(server.url(@path), @path)

    def build(name) = Servers.build(name, tls: @tls, http2: true)
  end

  # What an idle keep-alive connection costs in memory: growth of the server from none to COUNT,
  # each having asked once.
  class IdleScenario < HttpScenario
    COUNT = 10_000

    def initialize
      columns = [Column.new("RSS, KB a connection", :rss_kb_each, 2), Column.new("PSS, KB a connection", :pss_kb_each, 2),
                 Column.new("RSS with none, MB", :rss_before_mb, 1), Column.new("RSS with all, MB", :rss_mb, 1),
                 Column.new("answered", :answered, 0)]
      super("idle", "Memory of an idle keep-alive connection (#{COUNT} open, each has made one request)", subjects: Servers::NAMES, columns: columns)
    end

    # So that what the first requests need once is not counted as the connections' memory.
    def warm_up(server, _seconds)
      Answers.check(server.port, "/")
      Wrk.run(server.url("/"), connections: 64, seconds: 2)
      sleep 0.5
    end

    def take(server, _seconds)
      before = memory(server)
      Connections.hold(server.port, COUNT) do |client|
        answer = client.open("/", connecting: 64, unanswered: 64)
        sleep 1
        after = memory(server)
        rss_each, pss_each = after.zip(before).map { |now, earlier| (now - earlier) / answer.answered.to_f }
        { rss_kb_each: rss_each, pss_kb_each: pss_each, rss_before_mb: before[0] / 1024.0, rss_mb: after[0] / 1024.0,
          answered: answer.answered, errors: ("#{Gyre::Units.count(answer.failed, 'connection')} failed" if answer.failed.positive?) }
      end
    end

    private

    def memory(server)
      [server.tree.rss_kb, server.tree.pss_kb]
    end
  end

  # Many open connections, and every one of them still answers.
  class OpenScenario < HttpScenario
    COUNT = 15_000

    def initialize
      columns = [Column.new("answered first", :answered_first, 0), Column.new("seconds to open", :open_s, 2),
                 Column.new("answered again", :answered_again, 0), Column.new("seconds for all", :again_s, 2),
                 Column.new("RSS, MB", :rss_mb, 1)]
      super("open", "#{COUNT} open connections, then a request on every one of them at once", subjects: %w[gyre], columns: columns)
    end

    def warm_up(server, _seconds)
      Answers.check(server.port, "/")
    end

    def take(server, _seconds)
      Connections.hold(server.port, COUNT) do |client|
        first = client.open("/", connecting: 128, unanswered: 256)
        again = client.ask("/")
        failed = first.failed + again.failed
        { answered_first: first.answered, open_s: first.seconds, answered_again: again.answered, again_s: again.seconds,
          rss_mb: server.tree.rss_kb / 1024.0, errors: ("#{failed} failed" if failed.positive?) }
      end
    end
  end

  # Thousands of requests that wait at the same time, each on a connection of its own.
  class SleepersScenario < HttpScenario
    COUNT = 5_000

    def initialize
      columns = [Column.new("seconds for all", :seconds, 2), Column.new("answered", :answered, 0),
                 Column.new("again on open connections, seconds", :again_s, 2), Column.new("answered", :answered_again, 0),
                 Column.new("RSS, MB", :rss_mb, 1)]
      super("sleepers", "#{COUNT} connections, each asks once for an answer that sleeps 1 s: from the first connect to the last answer",
            subjects: %w[gyre falcon], columns: columns)
    end

    def warm_up(server, _seconds)
      Answers.check(server.port, "/sleep/1")
    end

    def take(server, _seconds)
      Connections.hold(server.port, COUNT) do |client|
        first = client.open("/sleep/1", connecting: 256, unanswered: COUNT)
        again = client.ask("/sleep/1")
        failed = first.failed + again.failed
        { seconds: first.seconds, answered: first.answered, again_s: again.seconds, answered_again: again.answered,
          rss_mb: server.tree.rss_kb / 1024.0, errors: ("#{failed} failed" if failed.positive?) }
      end
    end
  end

  # Connections one after another, each with a handshake and one request, by some openssl s_time at
  # once. The load computes as much as the server, on its own core.
  class HandshakeScenario < HttpScenario
    CLIENTS = 4

    def initialize(key, title, kind)
      columns = [Column.new("handshakes/s", :handshakes_per_s, 0), Column.new("server CPU, µs a handshake", :cpu_us, 0)]
      super(key, title, subjects: %w[nginx gyre], columns: columns)
      @kind = kind
    end

    def fresh?
      false
    end

    def warm_up(server, _seconds)
      Answers.check(server.port, "/", tls: true)
      shake(server, 1)
    end

    def take(server, seconds)
      cpu_before_s = server.tree.cpu_s
      count = shake(server, seconds)
      { handshakes_per_s: count / seconds.to_f, cpu_us: (server.tree.cpu_s - cpu_before_s) / count * 1e6 }
    end

    private

    def build(name) = Servers.build(name, tls: true)

    def shake(server, seconds)
      command = ["taskset", "-c", LOAD_CORE.to_s, Setup.program("openssl"), "s_time", "-connect", "127.0.0.1:#{server.port}", @kind,
                 "-www", "/", "-time", seconds.to_s, { err: %i[child out] }]
      texts = Array.new(CLIENTS) { IO.popen(command) }.map { |io| io.read.tap { io.close } }
      counts = texts.map { |text| text[/^(\d+) connections in \d+ real seconds/, 1].to_i }
      raise Problem, "openssl s_time printed:\n#{texts.first}" if counts.include?(0)

      counts.sum
    end
  end

  # What an idle connection costs in memory that Ruby's own sockets hold open: growth of the server
  # from none to COUNT.
  class IdleSocketsScenario < HttpScenario
    COUNT = 2_000

    def initialize(key, kind, done, servers)
      columns = [Column.new("RSS, KB a connection", :rss_kb_each, 2), Column.new("PSS, KB a connection", :pss_kb_each, 2),
                 Column.new("RSS with all, MB", :rss_mb, 1)]
      super(key, "Memory of an idle connection #{kind} (#{COUNT} open, #{done})", subjects: servers, columns: columns)
    end

    # What the first connections need once is not the others' memory.
    def warm_up(server, _seconds)
      hold(server, 64) { nil }
      sleep 0.5
    end

    def take(server, _seconds)
      before = [server.tree.rss_kb, server.tree.pss_kb]
      hold(server, COUNT) do
        sleep 1
        rss_kb, pss_kb = server.tree.rss_kb, server.tree.pss_kb
        { rss_kb_each: (rss_kb - before[0]) / COUNT.to_f, pss_kb_each: (pss_kb - before[1]) / COUNT.to_f, rss_mb: rss_kb / 1024.0 }
      end
    end

    private

    def hold(server, count)
      sockets = Array.new(count) { open(TCPSocket.new("127.0.0.1", server.port)) }
      yield
    ensure
      sockets&.each(&:close)
    end
  end

  # Connections over TLS, after one request.
  class IdleTLSScenario < IdleSocketsScenario
    def initialize
      super("tls-idle", "over TLS", "each has made one request", Servers::TLS_COMMANDS.keys)
      @context = OpenSSL::SSL::SSLContext.new
    end

    private

    def build(name) = Servers.build(name, tls: true)

    def open(socket)
      secure = OpenSSL::SSL::SSLSocket.new(socket, @context)
      secure.sync_close = true
      Answers.ask(secure.connect, "/", {})
      secure
    end
  end

  # Connections of HTTP/2 by prior knowledge, before their first request or after it.
  class IdleHTTP2Scenario < IdleSocketsScenario
    # RFC 9113, section 4.1: length, type, flags, stream.
    FRAME = ->(type, flags, stream, payload = "") { [payload.bytesize >> 8, payload.bytesize & 255, type, flags, stream].pack("nCCCN") + payload }
    SETTINGS = 4
    HEADERS = 1
    END_STREAM = 1
    PREFACE = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n#{FRAME.call(SETTINGS, 0, 0)}"
    # RFC 7541, appendix A: :method GET, :scheme http, :path /, and an :authority.
    GET = FRAME.call(HEADERS, 5, 1, "\x82\x86\x84\x41\x09127.0.0.1".b)

    def initialize(used)
      @used = used
      super(*(used ? ["http2-used", "of HTTP/2", "each has made one request"] : ["http2-fresh", "of HTTP/2", "none has made a request"]),
            %w[nginx gyre falcon])
    end

    private

    def build(name) = Servers.build(name, http2: true)

    def open(socket)
      socket.write(PREFACE)
      until_frame(socket) { |type, flags, _stream| type == SETTINGS && flags.zero? }
      socket.write(FRAME.call(SETTINGS, 1, 0), *(GET if @used))
      until_frame(socket) { |_type, flags, stream| stream == 1 && flags & END_STREAM == 1 } if @used
      socket
    end

    def until_frame(socket)
      loop do
        high, low, type, flags, stream = socket.read(9)&.unpack("nCCCN") || raise(Problem, "an HTTP/2 connection has ended")
        socket.read((high << 8) | low)
        break if yield type, flags, stream
      end
    end
  end

  # How much more two workers do than one. A request computes so long that the load, which is on one
  # of the same two cores, takes next to nothing of it: a column says how much.
  class WorkersScenario < HttpScenario
    CONNECTIONS = 16

    def initialize
      columns = [Column.new("one worker, requests/s", :one_per_s, 0), Column.new("two workers, requests/s", :two_per_s, 0),
                 Column.new("two ÷ one", :ratio, 2), Column.new("the load, % of a core", :load_percent, 1)]
      super("workers", "Two workers and one, #{CONNECTIONS} connections, each request computes", subjects: %w[gyre], columns: columns)
    end

    def measure(_name, settings)
      (one, first_load), (two, second_load) = [1, 2].map { |workers| rate(workers, settings[:seconds]) }
      { one_per_s: one, two_per_s: two, ratio: two / one, load_percent: [first_load, second_load].max }
    end

    private

    def rate(workers, seconds)
      server = Servers.build("gyre", workers: workers).start
      Answers.check(server.port, "/work")
      load(server, 1)
      before_s = ended_children_s
      result = load(server, seconds)
      [result.requests_per_s, (ended_children_s - before_s) / result.seconds * 100]
    ensure
      server&.stop
    end

    def load(server, seconds) = Wrk.run(server.url("/work"), connections: CONNECTIONS, seconds: seconds)
    def ended_children_s = Process.times.then { |times| times.cutime + times.cstime }
  end

  # All scenarios, in the order in which they are run and reported.
  module HttpScenarios
    RUBY_SERVERS = (Servers::NAMES - %w[nginx]).freeze
    BYTES = Column.new("GB/s", :gigabytes_per_s, 2)

    ALL = [
      LoadScenario.new("hello-64", "Hello, 64 connections", path: "/", connections: 64),
      LoadScenario.new("hello-1024", "Hello, 1,024 connections", path: "/", connections: 1024),
      LoadScenario.new("headers-64", "Hello, 64 connections, ten more request headers", path: "/", connections: 64,
                                                                                        headers: Wrk::BROWSER_HEADERS),
      LoadScenario.new("hello-h2load", "Hello, 64 connections, by h2load --h1 instead of wrk", path: "/", connections: 64,
                                                                                               tool: H2load),
      IdleScenario.new,
      OpenScenario.new,
      LoadScenario.new("sleep-100", "100 connections, each request sleeps 0.1 s (ideal: 1,000 requests/s)",
                       path: "/sleep/0.1", connections: 100, servers: RUBY_SERVERS, stretch: 2),
      SleepersScenario.new,
      LoadScenario.new("body-12k", "Bodies of 12 KB, 64 connections", path: "/12k", connections: 64, columns: [BYTES]),
      LoadScenario.new("static-10k", "Files of 10 KB, 64 connections", path: "/static/10k", connections: 64, servers: %w[nginx gyre]),
      LoadScenario.new("static-10m", "Files of 10 MB, 8 connections", path: "/static/10m", connections: 8, servers: %w[nginx gyre], columns: [BYTES]),
      LoadScenario.new("body-12m", "Bodies of 12 MB, 8 connections", path: "/12m", connections: 8, columns: [BYTES]),
      LoadScenario.new("tls-hello-64", "Hello over TLS, 64 connections", path: "/", connections: 64, tls: true,
                                                                         servers: Servers::TLS_COMMANDS.keys),
      LoadScenario.new("tls-body-12k", "Bodies of 12 KB over TLS, 64 connections", path: "/12k", connections: 64, tls: true,
                                                                                   columns: [BYTES], servers: Servers::TLS_COMMANDS.keys),
      HTTP2Scenario.new("http2-hello", "Hello over HTTP/2, 10 connections with 10 streams each", path: "/", connections: 10),
      HTTP2Scenario.new("http2-tls-hello", "Hello over HTTP/2 and TLS, 10 connections with 10 streams each", path: "/", connections: 10,
                                                                                                           tls: true),
      HandshakeScenario.new("tls-handshake", "Full handshakes of TLS 1.3, a request on each", "-new"),
      HandshakeScenario.new("tls-resume", "Resumed handshakes of TLS 1.3, a request on each", "-reuse"),
      IdleTLSScenario.new,
      IdleHTTP2Scenario.new(false),
      IdleHTTP2Scenario.new(true),
      WorkersScenario.new
    ].freeze
  end
end
