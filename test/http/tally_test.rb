# frozen_string_literal: true

require "test_helper"
require "gyre/http/client"

# The clients' counts for /metrics, and the lines of GYRE_DEBUG.
class HTTPTallyTest < Minitest::Test
  APP = ->(env) { [env["PATH_INFO"][/\d+/].to_i, {}, ["hello"]] }
  Tally = Gyre::HTTP::Tally

  def test_requests_are_counted_from_the_first_snapshot_on
    before = Tally.snapshot
    client = Gyre::HTTP::Client.new(APP)
    %w[/200 /201 /404].each { |path| client.get(path) }
    assert_raises(Gyre::HTTP::Client::Error) { Gyre::HTTP::Client.new("http://127.0.0.1:1", proxy: nil).get("/") }
    after = Tally.snapshot
    counted = after["responses"].to_h { |kind, count| [kind, count - before["responses"][kind]] }
    assert_equal({ "1xx" => 0, "2xx" => 2, "3xx" => 0, "4xx" => 1, "5xx" => 0, "error" => 1 }, counted)
    assert_equal [3, 4], [after["opened"] - before["opened"], after["durations"]["counts"].sum - before["durations"]["counts"].sum]
    assert_operator after["durations"]["sum_s"], :>, before["durations"]["sum_s"]
  end

  def test_the_environment_asks_for_a_line_for_each_request
    program = 'Gyre::HTTP::Client.new(->(_) { [200, {}, ["hello"]] }).get("/path?secret")'
    lines = ["1", ""].map { |value| ruby("-rgyre/http/client", "-e", program, env: { "GYRE_DEBUG" => value }).err }
    assert_match(%r{\Agyre: GET http://localhost/path 200 HTTP/1.1 new 5 bytes [\d.]+ ms\n\z}, lines.first)
    assert_equal "", lines.last
  end
end
