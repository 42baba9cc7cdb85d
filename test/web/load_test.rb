# frozen_string_literal: true

# A whole server under load: what it answers while all places are taken, and what its log has of
# requests that hold up the others.

require "test_helper"
require "net/http"
require "gyre/web"

class WebLoadTest < Minitest::Test
  # Errors only.
  class Log < Thread::Queue
    def error(text) = push(text)

    def info(_text) = nil
  end

  def serve(app, **options)
    server = Gyre::Web::Server.new(app, bind: "tcp://127.0.0.1:0", log: @log = Log.new, **options).start
    yield URI(server.urls.first), server
  ensure
    server&.stop(now: true)
    assert server.wait(60), "the server did not end" if server
  end

  def get(base, path) = Net::HTTP.get_response(base + path)

  def test_health_and_readiness_are_answered_while_all_places_are_taken
    gate = Thread::Queue.new
    app = lambda do |env|
      gate.pop
      [200, {}, [env["PATH_INFO"]]]
    end
    serve(app, limits: { requests_limit: 1, queue_limit: 1 }, health_path: "/up", ready_path: "/ready") do |base, server|
      assert_equal "200", get(base, "/ready").code
      first, second = Array.new(2) do |index|
        Thread.new { get(base, "/#{index}") }.tap { eventually { server.stats.values_at(:running, :waiting) == [1, index] } }
      end
      assert_equal %w[200 503], ["/up", "/ready"].map { |path| get(base, path).code }
      assert_equal "503", get(base, "/third").code
      2.times { gate << true }
      assert_equal %w[200 200], [first, second].map { |thread| thread.value.code }
      assert_equal "200", get(base, "/ready").code
    end
  end

  def test_the_log_has_a_request_that_holds_the_loop_with_method_path_and_place
    app = lambda do |_env|
      Thread.pass until @log.size.positive? # as long as it takes
      [200, {}, []]
    end
    serve(app, watchdog: true) do |base, _server|
      assert_equal "200", get(base, "/slow?secret").code
      report = @log.pop
      assert_match(/\Awatchdog: the request GET \/slow has held the loop of thread gyre web server for \d+\.\d+ s/, report)
      assert_includes report, "load_test.rb:"
    end
  end

  def test_a_request_timeout_cancels_waiting_requests
    serve(->(_env) { sleep }, limits: { request_timeout_s: 0.02 }) do |base, _server|
      assert_equal "503", get(base, "/").code
      assert_includes @log.pop, "RequestTimeout"
    end
  end
end
