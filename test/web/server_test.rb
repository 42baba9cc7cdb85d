# frozen_string_literal: true

# A server inside of another program: Gyre::Web::Server and Gyre::Web.serve.

require "test_helper"
require "net/http"
require "stringio"
require "gyre/web"

class WebServerTest < Minitest::Test
  HELLO = ->(_env) { [200, { "content-type" => "text/plain" }, ["hello"]] }

  def test_it_runs_in_a_thread_and_stops_from_another
    server = Gyre::Web::Server.new(HELLO, bind: "tcp://127.0.0.1:0").start
    assert_match(%r{\Ahttp://127\.0\.0\.1:\d+\z}, server.urls.first)
    assert_equal "hello", Net::HTTP.get(URI(server.urls.first))
    assert_equal 1, server.stats[:requests]
    server.stop
    assert server.wait(60), "the server did not end"
    assert_raises(Errno::ECONNREFUSED) { TCPSocket.new("127.0.0.1", server.endpoints.first.port) }
  end

  def test_it_runs_inside_of_other_tasks
    response = Gyre.run do |task|
      server = Gyre::Web::Server.new(HELLO, bind: "127.0.0.1:0").listen
      serving = task.async { server.run }
      response = Net::HTTP.get(URI(server.urls.first))
      server.stop
      serving.wait
      response
    end
    assert_equal "hello", response
  end

  # As the guard raises it, at any moment.
  def test_an_exception_within_the_end_leaves_nothing_open
    server = Gyre::Web::Server.new(HELLO, bind: "127.0.0.1:0", metrics: ["127.0.0.1:0"], signals: false)
    commands = server.instance_variable_get(:@lifetime).instance_variable_get(:@commands)
    commands.define_singleton_method(:stop) do
      super()
      raise Gyre::Stop, "the server stops" unless @raised
    ensure
      @raised = true
    end
    ports = nil
    thread = Thread.new do
      server.run do
        ports = (server.urls + server.metrics_urls).map { |url| URI(url).port }
        server.stop
      end
    end
    assert thread.join(60), "the server did not end"
    ports.each { |port| assert_raises(Errno::ECONNREFUSED) { TCPSocket.new("127.0.0.1", port) } }
  ensure
    thread&.kill&.join
  end

  def test_a_server_that_listened_but_never_ran_gives_back_everything
    closed = []
    server = Gyre::Web::Server.new(HELLO, bind: "127.0.0.1:0", metrics: ["127.0.0.1:0"], signals: false)
    Gyre.run do
      server.listen
      http = server.instance_variable_get(:@http)
      http.define_singleton_method(:close) { closed << super() }
      2.times { server.close }
    end
    assert_equal 2, closed.size
    assert_empty server.stats.values.select(&:positive?)
  end

  def test_it_ends_with_the_task_that_runs_it
    Gyre.run do |task|
      server = Gyre::Web::Server.new(HELLO, bind: "127.0.0.1:0").listen
      port = server.endpoints.first.port
      serving = task.async { server.run }
      Net::HTTP.get(URI(server.urls.first))
      serving.stop
      eventually { serving.finished? }
      assert_raises(Errno::ECONNREFUSED) { TCPSocket.new("127.0.0.1", port) }
    end
  end

  def test_stop_now_cancels_running_requests
    events = Thread::Queue.new
    app = lambda do |_env|
      events << :running
      sleep
    ensure
      events << :cleaned
    end
    server = Gyre::Web::Server.new(app, bind: "127.0.0.1:0").start
    client = TCPSocket.new("127.0.0.1", server.endpoints.first.port)
    client.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n")
    assert_equal :running, events.pop
    server.stop(now: true)
    assert server.wait(60), "the server did not end"
    assert_equal :cleaned, events.pop
    client.close
  end

  # Each gives :open when it is, and then waits for what never comes.
  ENDLESS = {
    "an_event_stream" => lambda do |events, _env|
      [200, { "content-type" => "text/event-stream" }, ->(stream) { wait_on(events) { stream << "data: 1\n\n" } }]
    end,
    "an_event_stream_by_each" => lambda do |events, _env|
      [200, { "content-type" => "text/event-stream" }, Enumerator.new { |parts| wait_on(events) { parts << "data: 1\n\n" } }]
    end,
    "an_upgrade" => ->(events, _env) { [101, { "upgrade" => "echo" }, ->(stream) { wait_on(events) { stream << "hello" } }] },
    "a_partial_hijack" => ->(events, _env) { [200, { "rack.hijack" => ->(io) { wait_on(events) { io << "hello" } } }, []] },
    "a_hijack_in_the_request" => ->(events, env) { read_hijacked(events, env) },
    "a_hijack_in_a_thread" => lambda do |events, env|
      io = env["rack.hijack"].call
      Thread.new { read_hijacked(events, env, io) }
      [200, {}, []]
    end,
    "a_fiber_of_the_app" => lambda do |events, _env|
      Fiber.schedule { wait_on(events) }
      [200, {}, ["hello"]]
    end
  }.freeze

  def self.wait_on(events)
    yield if block_given?
    events << :open
    sleep
  ensure
    events << :ended
  end

  def self.read_hijacked(events, env, io = env["rack.hijack"].call)
    events << :open
    io.read
    io.close
    events << :ended
    [200, {}, []]
  end

  def test_an_event_stream_ends_at_once_when_the_server_stops = check_endless("an_event_stream")

  def test_an_event_stream_by_each_ends_at_once_when_the_server_stops = check_endless("an_event_stream_by_each")

  def test_an_upgrade_ends_at_once_when_the_server_stops = check_endless("an_upgrade")

  def test_a_partial_hijack_ends_at_once_when_the_server_stops = check_endless("a_partial_hijack")

  def test_a_hijack_in_the_request_ends_at_once_when_the_server_stops = check_endless("a_hijack_in_the_request")

  def test_a_hijack_in_a_thread_ends_at_once_when_the_server_stops = check_endless("a_hijack_in_a_thread")

  def test_a_fiber_of_the_app_ends_at_once_when_the_server_stops = check_endless("a_fiber_of_the_app")

  def check_endless(name)
    app = ENDLESS.fetch(name)
    events = Thread::Queue.new
    server = Gyre::Web::Server.new(->(env) { app.call(events, env) }, bind: "127.0.0.1:0", shutdown_timeout: 300).start
    client = TCPSocket.new("127.0.0.1", server.endpoints.first.port)
    client.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n")
    assert_equal :open, events.pop
    server.stop
    assert server.wait(60), "the server did not end"
    assert_equal :ended, events.pop
    assert_match(/0\r\n\r\n\z/, client.read) if name.start_with?("an_event_stream")
  ensure
    client&.close
  end

  def test_a_streaming_body_with_nothing_to_send_ends_and_one_that_goes_on_finishes
    events = Thread::Queue.new
    proceed = Thread::Queue.new
    quiet = ->(stream) { self.class.wait_on(events) { stream << "a" } }
    busy = lambda do |stream|
      events << :open
      stream << "b" while proceed.pop != :done
      stream << "end"
    end
    app = ->(env) { [200, {}, env["PATH_INFO"] == "/quiet" ? quiet : busy] }
    server = Gyre::Web::Server.new(app, bind: "127.0.0.1:0", shutdown_timeout: 300).start
    clients = %w[quiet busy].map do |path|
      client = TCPSocket.new("127.0.0.1", server.endpoints.first.port)
      client.write("GET /#{path} HTTP/1.1\r\nhost: a\r\n\r\n")
      assert_equal :open, events.pop
      client
    end
    server.stop
    feeding = Thread.new do
      loop do
        proceed << :more
        break proceed << :done if events.size.positive? # the quiet one is over
        sleep(0.05)
      end
    end
    assert server.wait(60), "the server did not end"
    feeding.join
    assert_match(/3\r\nend\r\n0\r\n\r\n\z/, clients.last.read)
    refute_match(/0\r\n\r\n\z/, clients.first.read)
  ensure
    clients&.each(&:close)
  end

  def test_signals_are_left_alone_when_they_are_not_wanted
    seen = []
    before = trap("TERM") { seen << :mine }
    Gyre::Web.serve(HELLO, bind: "127.0.0.1:0", signals: false) do |server|
      Process.kill("TERM", Process.pid)
      eventually { seen == [:mine] }
      server.stop
    end
  ensure
    trap("TERM", before)
  end

  def test_a_handler_of_hup_of_the_programs_own_stays
    seen = []
    before = trap("HUP") { seen << :mine }
    Gyre::Web.serve(HELLO, bind: "127.0.0.1:0") do |server|
      Process.kill("HUP", Process.pid)
      eventually { seen == [:mine] }
      server.stop
    end
  ensure
    trap("HUP", before)
  end

  def test_a_thread_other_than_the_main_one_leaves_signals_alone
    before = trap("TERM", "DEFAULT")
    server = Gyre::Web::Server.new(HELLO, bind: "127.0.0.1:0").start
    Net::HTTP.get(URI(server.urls.first))
    assert_equal "DEFAULT", trap("TERM", "DEFAULT")
    server.stop
    server.wait
  ensure
    trap("TERM", before)
  end

  def test_figures_are_there_from_the_beginning
    server = Gyre::Web::Server.new(HELLO, bind: "127.0.0.1:0")
    assert_equal [0, 0], server.stats.values_at(:connections, :requests)
    server.close
  end

  def test_stopping_before_and_after_it_runs_does_no_harm
    server = Gyre::Web::Server.new(HELLO, bind: "127.0.0.1:0")
    server.stop
    server.run
    server.stop
    server.close
  end

  def test_stopping_twice_is_not_more_than_once
    server = Gyre::Web::Server.new(HELLO, bind: "127.0.0.1:0").start
    2.times { server.stop }
    assert server.wait(60)
  end

  def test_several_addresses_and_a_log
    out = StringIO.new
    server = Gyre::Web::Server.new(HELLO, bind: ["127.0.0.1:0", "127.0.0.2:0"], log_format: "common", out: out).start
    assert_equal %w[127.0.0.1 127.0.0.2], server.endpoints.map(&:host)
    server.urls.each { |url| assert_equal "hello", Net::HTTP.get(URI(url)) }
    server.stop
    server.wait
    assert_equal 2, out.string.lines.size
  end

  def test_ipv6_is_served_as_well
    server = Gyre::Web::Server.new(HELLO, bind: 0).start # localhost
    url = server.urls.find { |each| each.include?("[::1]") } or skip "this machine has no IPv6"
    output = run_program(need_program("curl"), "-s", "--globoff", "--max-time", "10", url)
    assert_equal "hello", output.out
  ensure
    server&.stop
    server&.wait
  end

  def test_an_address_in_use_opens_nothing
    taken = TCPServer.new("127.0.0.1", 0)
    server = Gyre::Web::Server.new(HELLO, bind: ["127.0.0.1:0", "127.0.0.1:#{taken.local_address.ip_port}"])
    assert_raises(Errno::EADDRINUSE) { server.start }
    assert(server.endpoints.all? { |endpoint| refused?(endpoint.port) })
  ensure
    taken&.close
  end

  def test_limits_are_taken_by_name
    server = Gyre::Web::Server.new(HELLO, bind: "127.0.0.1:0", limits: { keep_alive_timeout_s: 5 })
    assert_equal 5, server.limits.keep_alive_timeout_s
    server.close
  end

  def test_wrong_options_are_refused_at_once
    assert_raises(ArgumentError) { Gyre::Web::Server.new("no app") }
    assert_raises(ArgumentError) { Gyre::Web::Server.new(HELLO, bind: "::1:80") }
    assert_raises(ArgumentError) { Gyre::Web::Server.new(HELLO, bind: []) }
    [{ no_such_limit: 5 }, nil, [1]].each { |limits| assert_raises(ArgumentError) { Gyre::Web::Server.new(HELLO, limits: limits) } }
    error = assert_raises(ArgumentError) { Gyre::Web::Server.new(HELLO, keep_alive_timeout: 5) }
    assert_equal "keep_alive_timeout: unknown setting; it is one of limits: { keep_alive_timeout: … }", error.message
    assert_raises(ArgumentError) { Gyre::Web::Server.new(HELLO, log_format: "xml") }
    assert_raises(ArgumentError) { Gyre::Web::Server.new(HELLO, shutdown_timeout: -1) }
  end

  private

  def refused?(port)
    TCPSocket.new("127.0.0.1", port).close
    false
  rescue Errno::ECONNREFUSED
    true
  end
end
