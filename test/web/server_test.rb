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
    answer = Gyre.run do |task|
      server = Gyre::Web::Server.new(HELLO, bind: "127.0.0.1:0").listen
      serving = task.async { server.run }
      answer = Net::HTTP.get(URI(server.urls.first))
      server.stop
      serving.wait
      answer
    end
    assert_equal "hello", answer
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

  def test_stop_now_cancels_what_runs
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

  def test_what_cannot_be_is_refused_at_once
    assert_raises(ArgumentError) { Gyre::Web::Server.new("no app") }
    assert_raises(ArgumentError) { Gyre::Web::Server.new(HELLO, bind: "::1:80") }
    assert_raises(ArgumentError) { Gyre::Web::Server.new(HELLO, limits: { no_such_limit: 5 }) }
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
