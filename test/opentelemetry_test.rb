# frozen_string_literal: true

# One trace through requests, tasks, threads, the client, memcached and sockets, with the gems of
# OpenTelemetry, which come with the bundle of rake test:newest_gems.

require "test_helper"
require "gyre"
require "gyre/web/server"
require "logger"
require "stringio"
require "support/memcached_server"
require "web/serving"

begin
  require "rack"
  require "opentelemetry/sdk"
  require "opentelemetry/instrumentation/rack"
rescue LoadError
  warn "tests: the gems of OpenTelemetry are not in this bundle; rake test:newest_gems runs their tests"
end

return unless defined?(OpenTelemetry::SDK)

require "gyre/opentelemetry"

class OpenTelemetryTest < Minitest::Test
  include GyreTest::MemcachedServers
  include GyreTest::Serving

  SPANS = OpenTelemetry::SDK::Trace::Export::InMemorySpanExporter.new
  OpenTelemetry::SDK.configure do |config|
    config.add_span_processor(OpenTelemetry::SDK::Trace::Export::SimpleSpanProcessor.new(SPANS))
    config.logger = Logger.new(LOG = StringIO.new)
    config.use("OpenTelemetry::Instrumentation::Rack")
  end
  TRACER = OpenTelemetry.tracer_provider.tracer("test")

  # Says what it was told, each time in a span of its own.
  class Echo
    def on_open(socket) = TRACER.in_span("inner") { socket.write("open") }
    def on_message(socket, text) = TRACER.in_span("inner") { socket.write("#{text} #{Fiber[:user].inspect}") }
  end

  APP = lambda do |env|
    case env["PATH_INFO"]
    when "/block" then Gyre::WebSocket.open(env) { |socket| TRACER.in_span("inner") { socket.write("block") } }
    when "/handler" then Gyre::WebSocket.open(env, Echo.new)
    when "/events" then Gyre::SSE.open(env) { |events| events.write("hi") }
    when "/leak"
      OpenTelemetry::Context.attach(OpenTelemetry::Trace.context_with_span(TRACER.start_span("leaked")))
      [200, {}, ["ok"]]
    else
      env["sinatra.route"] = "GET /posts/:id"
      [env["PATH_INFO"] == "/bad" ? 500 : 200, {}, [env["gyre.trace_id"].to_s]]
    end
  end

  def setup
    SPANS.reset
    LOG.truncate(0)
  end

  def test_what_a_span_begins_has_its_context
    Gyre.run do |task|
      TRACER.in_span("parent") do
        assert_equal [trace] * 7, [
          task.async { trace }.wait, Gyre.after(0.001) { trace }.wait, from_queue { |queue| Fiber.schedule { queue << trace } },
          Thread.new { trace }.value, Enumerator.new { |out| out << trace }.next, Gyre.blocking { trace }, Gyre.run { trace }
        ]
      end
      assert_nil trace
    end
  end

  def test_a_context_that_was_not_detached_ends_with_its_task_and_its_request
    Gyre.run do |task|
      lost = lambda do
        OpenTelemetry::Context.attach(OpenTelemetry::Trace.context_with_span(TRACER.start_span("lost")))
        Fiber.current
      end
      fiber = task.async { lost.call }.wait
      assert_equal [fiber, nil], task.async { [Fiber.current, trace] }.wait
    end
    tracing { |client| 3.times { client.get("/leak") } }
    assert_equal 3, spans("GET").map(&:hex_trace_id).uniq.size
    assert_equal [OpenTelemetry::Trace::INVALID_SPAN_ID], spans("GET").select { |span| span.kind == :client }.map(&:parent_span_id).uniq
  end

  def test_contexts_are_detached_in_their_order_and_another_fibers_token_changes_nothing
    contexts = Array.new(3) { |number| OpenTelemetry::Context.empty.set_value("number", number) }
    tokens = contexts.map { |context| OpenTelemetry::Context.attach(context) }
    foreign = Fiber.new { OpenTelemetry::Context.attach(contexts[0]) }.resume
    refute OpenTelemetry::Context.detach(foreign)
    assert_equal 2, OpenTelemetry::Context.value("number")
    assert OpenTelemetry::Context.detach(tokens[2])
    refute OpenTelemetry::Context.detach(tokens[0])
    assert_equal OpenTelemetry::Context::ROOT, OpenTelemetry::Context.current
    assert_equal 2, LOG.string.scan("detach without its attach").size
  end

  def test_a_request_of_the_client_is_a_span_whose_server_joins_it
    tracing do |client, url|
      TRACER.in_span("parent") do |parent|
        assert_equal parent.context.hex_trace_id, client.get("/posts/1?secret=1").body
        seen = []
        client.fan_out(%w[/a /b]) { |response| seen << response.body }
        assert_equal [parent.context.hex_trace_id] * 2, seen
        assert_equal 500, client.get("/bad").status
      end
      assert_raises(Gyre::HTTP::Client::Error) { Gyre::HTTP.get("http://127.0.0.1:1/") }
      asked, *, bad, failed = spans("GET").select { |span| span.kind == :client }
      assert_equal({ "http.request.method" => "GET", "url.full" => "#{url}/posts/1", "server.address" => "127.0.0.1",
                     "server.port" => Integer(url[/\d+\z/]), "http.response.status_code" => 200 }, asked.attributes)
      assert_equal [["500", OpenTelemetry::Trace::Status::ERROR], [nil, OpenTelemetry::Trace::Status::ERROR]],
                   [bad, failed].map { |span| [span.attributes["error.type"], span.status.code] }
      server = spans("GET").find { |span| span.kind == :server && span.parent_span_id == asked.span_id }
      assert_equal "/posts/:id", server.attributes["http.route"]
    end
  end

  def test_a_call_of_memcached_is_a_span_without_its_key
    client = Gyre::Memcached::Client.new(memcached.address)
    Gyre.run do
      TRACER.in_span("parent") do |parent|
        client.set("secret", "x")
        assert_equal "x", client.get("secret")
        assert_equal({ "secret" => "x" }, client.get_multi("secret"))
        found = %w[set get get_multi].map { |name| spans(name).first }
        assert_equal [parent.context.trace_id] * 3, found.map(&:trace_id)
        assert_equal({ "db.system.name" => "memcached", "db.operation.name" => "get" }, found[1].attributes)
      end
    end
  end

  def test_sessions_of_sockets_have_spans_linked_to_their_requests
    tracing do |client, url|
      Gyre::WebSocket.connect("#{url.sub("http", "ws")}/block") { |socket| assert_equal "block", socket.read }
      Gyre::WebSocket.connect("#{url.sub("http", "ws")}/handler") do |socket|
        assert_equal "open", socket.read
        socket.write("a")
        assert_equal "a nil", socket.read
      end
      client.stream("GET", "/events").close
    end
    names = ["WebSocket session", "WebSocket on_open", "WebSocket on_message", "Events session"]
    sessions = names.map { |name| spans(name).first || flunk("no span #{name} in #{SPANS.finished_spans.map(&:name)}") }
    requests = SPANS.finished_spans.select { |span| span.kind == :server }
    assert_equal [requests[0], requests[1], requests[1], requests[2]].map(&:span_id), sessions.map { |span| span.links.first.span_context.span_id }
    assert_equal sessions.first(3).map(&:span_id), spans("inner").map(&:parent_span_id)
  end

  def test_log_lines_have_the_ids
    log = StringIO.new
    logger = Logger.new(log, formatter: Logger::Formatter.new.extend(Gyre::Tracing::Ids))
    TRACER.in_span("parent") do |span|
      logger.info("hello")
      assert_includes log.string, "trace_id=#{span.context.hex_trace_id} span_id=#{span.context.hex_span_id} hello"
    end
    logger.info("later")
    assert_match(/: later$/, log.string)
  end

  # An exporter that writes to a file; its processor would send every ten minutes.
  PROGRAM = <<~'RUBY'
    require "opentelemetry/sdk"
    require "gyre/opentelemetry"
    exporter = Object.new
    def exporter.export(spans, timeout: nil)
      File.write("spans", spans.map { |span| "#{span.name}\n" }.join, mode: "a")
      OpenTelemetry::SDK::Trace::Export::SUCCESS
    end
    def exporter.force_flush(timeout: nil) = OpenTelemetry::SDK::Trace::Export::SUCCESS
    def exporter.shutdown(timeout: nil) = OpenTelemetry::SDK::Trace::Export::SUCCESS
    OpenTelemetry::SDK.configure do |config|
      config.add_span_processor(OpenTelemetry::SDK::Trace::Export::BatchSpanProcessor.new(exporter, schedule_delay: 600_000))
    end
    tracer = OpenTelemetry.tracer_provider.tracer("test")
    run ->(env) { tracer.in_span(env["PATH_INFO"]) { [200, {}, []] } }
  RUBY

  def test_the_last_spans_of_a_server_and_of_its_workers_are_sent
    [[], ["-w", "1"]].each do |flags|
      serve(*flags, app: PROGRAM) do |program|
        program.get("/last")
        program.signal(:TERM)
        program.status
        assert_equal "/last\n", File.read(File.join(program.folder, "spans"))
      end
    end
  end

  private

  def trace = Gyre::Tracing.span_context&.hex_trace_id

  def spans(name) = SPANS.finished_spans.select { |span| span.name == name }

  def from_queue
    queue = Thread::Queue.new
    yield queue
    queue.pop
  end

  # Yields a client, and the server's address.
  def tracing
    stack = Gyre::Tracing::Middleware.new(APP)
    middleware, *arguments = OpenTelemetry::Instrumentation::Rack::Instrumentation.instance.middleware_args
    Gyre.run do |task|
      server = Gyre::Web::Server.new(middleware.new(stack, *arguments), bind: "127.0.0.1:0").listen
      running = task.async { server.run }
      client = Gyre::HTTP::Client.new(server.urls.first)
      yield client, server.urls.first
    ensure
      client&.close
      running&.stop
    end
  end
end
