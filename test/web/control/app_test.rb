# frozen_string_literal: true

# /metrics and /status: Gyre::Web::ControlApp, alone and behind --metrics (ControlServer).

require "test_helper"
require "support/open_metrics"
require "json"
require "gyre/web"
require "web/serving"

class WebControlTest < Minitest::Test
  include GyreTest::Serving

  Source = Struct.new(:snapshots)

  def test_other_paths_and_methods_are_refused
    control = Gyre::Web::ControlApp.new(Source.new({}))
    assert_equal 404, control.call({ "PATH_INFO" => "/", "REQUEST_METHOD" => "GET" })[0]
    status, headers, = control.call({ "PATH_INFO" => "/metrics", "REQUEST_METHOD" => "POST" })
    assert_equal [405, "GET, HEAD"], [status, headers["allow"]]
  end

  def test_without_a_host_metrics_are_for_this_machine_only
    assert_equal %w[tcp://127.0.0.1:9090 tcp://127.0.0.1:9090 tcp://0.0.0.0:9394 unix:///run/m.sock],
      ["9090", ":9090", "0.0.0.0", "unix:///run/m.sock"].map { |text| Gyre::Web::ControlServer.endpoint(text).to_s }
  end

  def test_an_app_and_its_metrics_are_served_side_by_side
    serve("--metrics", "127.0.0.1:0", "--metrics", "unix://metrics.sock") do |program|
      metrics = program.expect(%r{metrics on (http://\S+)/metrics})[1]
      2.times { program.get("/") }
      response = eventually do
        found = Net::HTTP.get_response(URI("#{metrics}/metrics"))
        found if found.body.include?("gyre_http_responses_total{class=\"2xx\"} 2\n")
      end
      assert_equal "application/openmetrics-text; version=1.0.0; charset=utf-8", response["content-type"]
      families = GyreTest::OpenMetrics.parse(response.body)
      assert_equal 2.0, families["gyre_http_requests"].samples.first.value, "the requests for metrics are not the app's"
      assert_equal program.pid, JSON.parse(Net::HTTP.get(URI("#{metrics}/status")))["workers"].first["snapshot"]["pid"]
      socket = UNIXSocket.new(File.join(program.folder, "metrics.sock"))
      assert_includes program.get("/metrics", socket: socket), "# EOF\n"
      assert_includes program.get("/metrics"), "hello", "the app has its own paths"
      program.signal("TERM")
      assert_predicate program.status, :success?
      refute File.exist?(File.join(program.folder, "metrics.sock"))
    end
  end

  def test_an_address_that_is_taken_is_reported
    taken = TCPServer.new("127.0.0.1", 0)
    output = gyre("serve", "-b", "127.0.0.1:0", "--metrics", "127.0.0.1:#{taken.local_address.ip_port}",
      files: { "config.ru" => "run ->(_) { [200, {}, []] }" }, gems: true)
    assert_equal 1, output.status.exitstatus
    assert_match(/listen on/, output.err)
  ensure
    taken.close
  end

  def test_a_server_in_a_program_has_metrics_too
    server = Gyre::Web::Server.new(->(_env) { [200, {}, []] }, bind: "127.0.0.1:0", metrics: ["127.0.0.1:0"]).start
    url = eventually { server.metrics_urls.first }
    Net::HTTP.get(URI(server.urls.first))
    assert_includes eventually { Net::HTTP.get(URI("#{url}/metrics"))[/^gyre_http_responses_total.*2xx.* 1$/] }, "2xx"
  ensure
    server.stop
    assert server.wait(60)
  end
end
