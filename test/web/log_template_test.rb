# frozen_string_literal: true

# Formats of the access log with fields of one's own: Gyre::Web::LogTemplate.

require "test_helper"
require "json"
require "gyre/web/log_format"

class WebLogTemplateTest < Minitest::Test
  ENVIRONMENT = {
    "REMOTE_ADDR" => "127.0.0.1", "REQUEST_METHOD" => "GET", "REQUEST_URI" => "/a?b=c", "PATH_INFO" => "/a", "QUERY_STRING" => "b=c",
    "SERVER_PROTOCOL" => "HTTP/1.1", "SERVER_NAME" => "app.example", "SERVER_PORT" => "80", "HTTP_USER_AGENT" => "curl/8 (x)",
    "CONTENT_TYPE" => "text/plain", "HTTP_X_REQUEST_ID" => "id-1", "app.user" => "jane",
    "gyre.response_headers" => { "content-type" => "text/html", "set-cookie" => %w[a b] }
  }.freeze

  def test_each_directive
    {
      "%h %a" => "127.0.0.1 127.0.0.1", "%l %u" => "- -", "%r" => "GET /a?b=c HTTP/1.1", "%m %H" => "GET HTTP/1.1",
      "%U %q" => "/a ?b=c", "%v:%p" => "app.example:80", "%s %>s" => "200 200", "%b %B" => "12 12", "%D %T" => "1234568 1",
      "%{ms}T %{us}T %{frac}T" => "1235 1234568 1.234568", "%P" => Process.pid.to_s, "%L" => "id-1", "100%%" => "100%",
      "\"%{User-Agent}i\"" => "\"curl/8 (x)\"", "%{Content-Type}i" => "text/plain", "%{Content-Type}o" => "text/html",
      "\"%{Set-Cookie}o\"" => "\"a, b\"", "%{app.user}e" => "jane", "%{Missing}i %{missing}o %{missing}e" => "- - -"
    }.each { |format, text| assert_equal "#{text}\n", line(format), format }
  end

  def test_the_common_format_can_be_written_in_directives
    assert_equal Gyre::Web::LogFormat.named("common").line(ENVIRONMENT, 200, 12, 0.1), line("%h %l %u %t \"%r\" %>s %b")
  end

  def test_no_bytes_are_a_dash_for_b_and_a_zero_for_capital_b
    assert_equal "- 0\n", format("%b %B").line(ENVIRONMENT, 304, 0, 0.1)
  end

  def test_a_time_may_have_a_format
    assert_match(/\A\d{4}-\d\d-\d\dT\d\d:\d\d\n\z/, line("%{%FT%H:%M}t"))
  end

  def test_no_client_can_forge_a_line_or_leave_its_quotes
    nasty = ENVIRONMENT.merge("HTTP_USER_AGENT" => "a\" b\r\n\\\xff".b)
    assert_equal "\"a\\x22 b\\x0D\\x0A\\x5C\\xFF\"\n", format("\"%{User-Agent}i\"").line(nasty, 200, 1, 1.0)
    assert_equal "a\\x22+b\\x0D\\x0A\\x5C\\xFF x\n", format("%{User-Agent}i x").line(nasty, 200, 1, 1.0), "a space would end the field"
  end

  def test_json_has_the_names_that_are_given_and_numbers_as_such
    text = format("json:status=%s, took=%{ms}T,id=%L,agent=%{User-Agent}i,missing=%{X}i,at=%{%F,%H}t").line(ENVIRONMENT, 200, 12, 1.5)
    values = JSON.parse(text)
    assert_equal({ "status" => 200, "took" => 1500, "id" => "id-1", "agent" => "curl/8 (x)", "missing" => nil }, values.except("at"))
    assert_match(/\A\d{4}-\d\d-\d\d,\d\d\z/, values["at"])
    assert_equal "\u{fffd}", JSON.parse(format("json:a=%{X}i").line({ "HTTP_X" => "\xff".b }, 200, 1, 1.0))["a"]
  end

  def test_response_headers_are_kept_only_when_they_are_logged
    assert_predicate format("%{x}o"), :response_headers?
    assert_predicate format("json:a=%{x}o"), :response_headers?
    refute_predicate format("%{x}i"), :response_headers?
    env = {}
    response = Gyre::Web::LogTemplate::ResponseHeaders.new(->(_env) { [200, { "a" => "b" }, []] }).call(env)
    assert_equal [200, { "a" => "b" }, []], response
    assert_equal({ "a" => "b" }, env["gyre.response_headers"])
  end

  def test_what_is_wrong_is_refused_with_what_there_is
    { "%y" => "%y is no directive", "%{x}z" => "%{x}z is no directive", "%{days}T" => "unit must be", "%h\n%h" => "one line",
      "%" => "is no directive", "json:" => "no fields", "json:a" => "write name=%directive", "json:a=%y" => "no directive" }.each do |text, reason|
      assert_includes assert_raises(ArgumentError, text) { format(text) }.message, reason
    end
  end

  private

  def format(text) = Gyre::Web::LogFormat.named(text)

  def line(text) = format(text).line(ENVIRONMENT, 200, 12, 1.234568)
end
