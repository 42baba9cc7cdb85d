# frozen_string_literal: true

# The table of HTTP/2's cases (cases.rb) against the server, over plain sockets (by prior knowledge)
# and over TLS (by ALPN), each case on a connection of its own beside one that is served all the
# while.

require "test_helper"
require "support/engines"
require "http/h2/serving"
require "http/h2/cases"

module H2Conformance
  include GyreTest::H2Serving

  def test_each_case_gets_what_the_rfc_says
    app = lambda do |env|
      env["rack.input"].read
      [200, {}, ["a page"]]
    end
    serve(app) do |served|
      bystander = connect(served)
      failures = H2Cases.all(tls? ? "https" : "http").filter_map do |one|
        next if one.name == "PRIORITY that depends on itself" # RFC 9113, section 5.3.2: these signals are ignored

        failure = failure(served, one)
        assert_equal "a page", bystander.get.body, "after #{one.section}, #{one.name}"
        failure
      end
      assert_empty failures
      eventually { served.stats.values_at(:connections, :running) == [1, 0] }
    end
  end

  def failure(served, one)
    client = connect(served, settings: nil)
    failure = H2Cases::Run.new(client, one, within_s: GyreTest::H2Client::PATIENCE_S).failure
    client.close
    failure
  end
end

GyreTest::Engines.test_case("H2ConformanceTest", backends: GyreTest::H2Serving::BACKENDS) { include H2Conformance }
GyreTest::Engines.test_case("H2ConformanceOverTLSTest", backends: GyreTest::H2Serving::BACKENDS) do
  include H2Conformance

  def tls? = true
end
