# frozen_string_literal: true

# The service with an exchange that has no socket; over real sockets it is in
# test/contracts/http_contract_*_test.rb.

require "test_helper"
require "stringio"
require "http/fake_exchange"
require "gyre/http/service"
require "gyre/web/access_log/log_format"

class HTTPServiceTest < Minitest::Test
  def setup
    @errors = []
    @log = Object.new
    errors = @errors
    @log.define_singleton_method(:error) { |message| errors << message }
  end

  def env(path = "/", version: "HTTP/1.1")
    { "REQUEST_METHOD" => "GET", "PATH_INFO" => path, "SERVER_PROTOCOL" => version, "rack.response_finished" => [] }
  end

  def serve(exchange, access_log: nil, &app)
    exchange.fast = true
    Gyre::HTTP::Service.new(app, log: @log, access_log: access_log).call(exchange)
  end

  def test_every_request_that_is_there_is_served
    exchange = GyreTest::FakeExchange.new(env("/1"), env("/2"))
    serve(exchange) { |env| [200, {}, [env["PATH_INFO"]]] }
    assert_equal [[:write_response, 200, {}, ["/1"]], [:write_response, 200, {}, ["/2"]]], exchange.calls
    assert_empty @errors
  end

  def test_an_exception_becomes_a_500_and_a_line_in_the_log
    exchange = GyreTest::FakeExchange.new(env("/a"))
    serve(exchange) { raise "trouble" }
    assert_equal [[:write_response, 500, { "content-type" => "text/plain" }, ["Internal Server Error\n"]]], exchange.calls
    assert_match(%r{\AGET /a: unhandled in the app: .*trouble \(RuntimeError\)}, @errors.fetch(0))
  end

  def test_an_exception_after_the_head_cuts_the_connection
    { "HTTP/1.1" => :close, "HTTP/1.0" => :reset }.each do |version, ending|
      exchange = GyreTest::FakeExchange.new(env(version: version))
      serve(exchange) { [200, {}, Enumerator.new { raise "trouble" }] }
      assert_equal [:write_head, ending], exchange.names
    end
    assert_equal 2, @errors.size
  end

  def test_a_client_that_went_away_is_nobodys_fault
    exchange = GyreTest::FakeExchange.new(env)
    serve(exchange) do
      exchange.break
      raise Errno::EPIPE
    end
    assert_empty @errors
    exchange = GyreTest::FakeExchange.new(env)
    serve(exchange) do
      exchange.break
      raise "trouble"
    end
    assert_equal 1, @errors.size
  end

  def test_a_request_that_is_wrong_gets_its_status_without_a_line_in_the_log
    exchange = GyreTest::FakeExchange.new(env("/1"), env("/2"))
    errors = { "/1" => Gyre::HTTP::RequestError.new("too long", 413), "/2" => Gyre::HTTP::RequestCut.new("cut") }
    serve(exchange) { |env| raise errors.fetch(env["PATH_INFO"]) }
    assert_equal [[413, ["too long\n"]], [400, ["cut\n"]]], exchange.calls.map { |_, status, _, body| [status, body] }
    assert_empty @errors
  end

  def test_exit_ends_its_request_only
    body = Object.new
    body.define_singleton_method(:each) { |&_block| exit }
    { -> { exit } => :write_response, -> { abort } => :write_response, -> { [200, {}, body] } => :close }.each do |app, last|
      exchange = GyreTest::FakeExchange.new(env("/a"), env("/b"))
      capture_io { serve(exchange) { |env| env["PATH_INFO"] == "/a" ? app.call : [200, {}, []] } }
      assert_match(%r{\AGET /a: unhandled in the app: .*\(SystemExit\)}, @errors.shift)
      assert_equal last, exchange.names.last
    end
    assert_empty @errors
  end

  def test_exit_while_a_request_ends_is_logged_and_no_more
    body = ["x"]
    def body.close = exit
    exchange = GyreTest::FakeExchange.new(env)
    serve(exchange) do |env|
      env["rack.response_finished"] << ->(*) { exit }
      [200, {}, body]
    end
    assert_equal [:write_response], exchange.names
    assert_equal ["the body's close", "rack.response_finished"], @errors.map { |line| line[/unhandled in ([^:]+)/, 1] }
  end

  def test_the_exit_of_another_thread_passes
    error = Thread.new { exit }.tap { |thread| thread.report_on_exception = false }.then { |thread| foreign_exit(thread) }
    exchange = GyreTest::FakeExchange.new(env)
    assert_raises(SystemExit) { serve(exchange) { raise error } }
    assert_equal [:close], exchange.names
  end

  # Ruby raises a thread's exit in the main thread, too.
  def foreign_exit(thread)
    thread.join
    sleep
  rescue SystemExit => error
    error
  end

  def test_the_end_of_the_process_and_of_the_task_pass
    [Interrupt, SignalException.new("TERM")].each do |type|
      exchange = GyreTest::FakeExchange.new(env)
      assert_raises(SystemExit, SignalException) { serve(exchange) { raise type } }
      assert_equal [:close], exchange.names
    end
    exchange = GyreTest::FakeExchange.new(env)
    serve(exchange) { raise Gyre::Stop }
    assert_equal [:close], exchange.names
    assert_empty @errors
  end

  def test_whatever_ends_the_fiber_closes_body_and_connection
    closed = 0
    body = Object.new
    body.define_singleton_method(:each) { |&_block| Thread.exit }
    body.define_singleton_method(:close) { closed += 1 }
    exchange = GyreTest::FakeExchange.new(env)
    Thread.new { serve(exchange) { [200, {}, body] } }.join
    assert_equal [1, :close], [closed, exchange.names.last]
  end

  def test_response_finished_gets_the_apps_own_words
    seen = []
    callable = ->(_env, *arguments) { seen << arguments }
    exchange = GyreTest::FakeExchange.new(env("/1"), env("/2"))
    serve(exchange) do |env|
      env["rack.response_finished"] << callable
      env["PATH_INFO"] == "/1" ? [200, { "a" => "b" }, []] : raise(IndexError)
    end
    assert_equal [[200, { "a" => "b" }, nil]], seen[0, 1]
    assert_equal [nil, nil, IndexError], [*seen[1][0, 2], seen[1][2].class]
  end

  def test_a_hijacked_connection_has_no_status
    statuses = []
    finished = []
    exchange = GyreTest::FakeExchange.new(env("/1"))
    exchange.define_singleton_method(:write_response) { |*| raise Errno::EPIPE }
    serve(exchange, access_log: ->(_env, status, *) { statuses << status }) do |env|
      env["rack.response_finished"] << ->(_env, status, _headers, error) { finished << [status, error] }
      env["rack.hijack"].hijack
      [-1, {}, []]
    end
    assert_equal [[nil], [[nil, nil]]], [statuses, finished]
    log = Gyre::Web::LogFormat
    assert_match(/" - 0$/, log.named("common").line({}, nil, 0, 0.1))
    assert_equal "- 0\n", log.named("%s %B").line({}, nil, 0, 0.1)
    assert_nil JSON.parse(log.named("json").line({}, nil, 0, 0.1))["status"]
  end

  def test_the_access_log_has_what_went_out
    told = []
    exchange = GyreTest::FakeExchange.new(env("/1"), env("/2"), env("/3"))
    serve(exchange, access_log: ->(env, status, bytes, seconds) { told << [env["PATH_INFO"], status, bytes, seconds.class] }) do |env|
      case env["PATH_INFO"]
      when "/1" then [200, {}, ["ab"].each]
      when "/2" then raise "trouble"
      else
        exchange.break
        raise Errno::EPIPE
      end
    end
    assert_equal [["/1", 200, 2, Float], ["/2", 500, 2, Float], ["/3", 499, 2, Float]], told
  end

  def test_an_engine_may_use_its_log
    Gyre::HTTP::Service.new(nil, log: @log).error("no descriptors")
    assert_equal ["no descriptors"], @errors
  end
end
