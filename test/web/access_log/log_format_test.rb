# frozen_string_literal: true

# The lines of the access log, and that no client can forge one: Gyre::Web::LogFormat.

require "test_helper"
require "json"
require "time"
require "gyre/web/access_log/log_format"

class WebLogFormatTest < Minitest::Test
  ENVIRONMENT = {
    "REMOTE_ADDR" => "127.0.0.1", "REQUEST_METHOD" => "GET", "REQUEST_URI" => "/hello", "PATH_INFO" => "/hello",
    "QUERY_STRING" => "", "SERVER_PROTOCOL" => "HTTP/1.1", "HTTP_HOST" => "localhost"
  }.freeze
  WHOLE = {
    "REMOTE_ADDR" => "127.0.0.1", "REQUEST_METHOD" => "GET", "REQUEST_URI" => "/a?b=c", "PATH_INFO" => "/a", "QUERY_STRING" => "b=c",
    "SERVER_PROTOCOL" => "HTTP/1.1", "SERVER_NAME" => "app.example", "SERVER_PORT" => "80", "HTTP_USER_AGENT" => "curl/8 (x)",
    "CONTENT_TYPE" => "text/plain", "HTTP_X_REQUEST_ID" => "id-1", "app.user" => "jane",
    "gyre.response_headers" => { "content-type" => "text/html", "set-cookie" => %w[a b] }
  }.freeze
  NASTY = "a\"b\\c\r\nforged - - [] \x00\x1b\x7f\xff\u00e9".b

  def test_common_is_the_ncsa_format
    assert_match %r{\A127\.0\.0\.1 - - \[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\] "GET /hello HTTP/1\.1" 200 12\n\z},
                 line("common")
  end

  def test_the_target_is_what_the_client_sent
    assert_includes line("common", "REQUEST_URI" => "http://h/a?b", "PATH_INFO" => "/changed"), "\"GET http://h/a?b HTTP/1.1\""
  end

  def test_the_time_is_the_present_second
    log = named("common")
    written = Time.strptime(log.line(ENVIRONMENT, 200, 0, 0.0)[/\[(.*?)\]/, 1], "%d/%b/%Y:%H:%M:%S %z")
    assert_in_delta Time.now.to_f, written.to_f, 30
  end

  def test_combined_adds_referer_and_user_agent
    text = line("combined", "HTTP_REFERER" => "http://a/", "HTTP_USER_AGENT" => "curl/8")
    assert text.end_with?("\" 200 12 \"http://a/\" \"curl/8\"\n"), text
    assert line("combined").end_with?("200 12 \"-\" \"-\"\n")
  end

  def test_json_is_an_object_a_line
    record = JSON.parse(line("json", "REQUEST_URI" => "/hello?a=b", "HTTP_USER_AGENT" => "curl/8"))
    assert_equal ["GET", "/hello?a=b", 200, 12, 0.25, "curl/8", "localhost", nil],
                 record.values_at("method", "target", "status", "bytes", "duration_s", "user_agent", "host", "referer")
    assert_in_delta Time.now.to_f, Time.iso8601(record["time"]).to_f, 30
  end

  def test_no_field_ends_a_line_or_a_pair_of_quotes
    fields = %w[REMOTE_ADDR REMOTE_USER REQUEST_URI HTTP_REFERER HTTP_USER_AGENT]
    plain = line("combined", fields.to_h { |name| [name, "x"] })
    text = line("combined", fields.to_h { |name| [name, NASTY] })
    assert_equal plain.count("\""), text.count("\"")
    assert_equal 1, text.count("\n")
    assert_match(/\A[\x20-\x7e]*\n\z/, text)
    assert_includes text, "a\\x22b\\x5Cc\\x0D\\x0Aforged"
  end

  def test_what_is_not_known_of_a_refused_head_has_a_dash_in_its_place
    log = named("common")
    assert_match(/\A192\.0\.2\.1 - - \[.*\] "- - -" 408 12\n\z/, log.line({ "REMOTE_ADDR" => "192.0.2.1" }, 408, 12, 0.0))
    assert_match(/ "PUT - -" 414 12\n\z/, log.line({ "REMOTE_ADDR" => "", "REQUEST_METHOD" => "PUT" }, 414, 12, 0.0))
    record = JSON.parse(named("json").line({ "REMOTE_ADDR" => "192.0.2.1" }, 400, 12, 0.0))
    assert_equal ["192.0.2.1", nil, nil, nil, 400], record.values_at("remote", "method", "target", "protocol", "status")
  end

  def test_a_user_name_with_a_space_stays_one_field
    assert_includes line("common", "REMOTE_USER" => "a b"), "127.0.0.1 - a+b ["
    assert_includes line("common", "REMOTE_USER" => ""), "127.0.0.1 - - ["
  end

  def test_json_survives_bytes_that_are_not_utf8
    text = line("json", "REQUEST_URI" => NASTY, "HTTP_USER_AGENT" => NASTY)
    assert_equal 1, text.count("\n")
    assert_includes JSON.parse(text)["user_agent"], "a\"b\\c\r\nforged"
  end

  def test_what_is_missing_is_a_dash
    assert_match(/\A- - - \[.*\] "GET - HTTP\/1.1" 200 12\n\z/, line("common", "REMOTE_ADDR" => nil, "REQUEST_URI" => nil))
  end

  def test_behind_a_unix_socket_the_proxy_has_the_address_of_the_client
    assert_match(/\Aunix: - - \[/, line("common", "REMOTE_ADDR" => ""))
    assert_match(/\A192\.0\.2\.1 - - \[/, line("combined", "REMOTE_ADDR" => "", "HTTP_X_FORWARDED_FOR" => "203.0.113.9, 192.0.2.1"))
    assert_match(/\A\\x22a\+b - - \[/, line("common", "REMOTE_ADDR" => "", "HTTP_X_FORWARDED_FOR" => "\"a b"))
    assert_match(/"remote":"unix:"/, line("json", "REMOTE_ADDR" => ""))
    assert_match(/\A127\.0\.0\.1 - - \[/, line("common", "HTTP_X_FORWARDED_FOR" => "192.0.2.1"), "over TCP a client could forge it")
  end

  def test_none_has_no_format
    assert_nil named("none")
  end

  def test_an_unknown_format_is_refused_with_those_that_exist
    error = assert_raises(ArgumentError) { named("clf") }
    assert_includes error.message, "none, common, combined, json"
  end

  def test_each_directive
    {
      "%h" => "127.0.0.1", "%l %u" => "- -", "%r" => "GET /a?b=c HTTP/1.1", "%m %H" => "GET HTTP/1.1",
      "%U %q" => "/a ?b=c", "%v:%p" => "app.example:80", "%s %>s" => "200 200", "%b %B" => "12 12", "%D" => "1234568", "%Q" => "-",
      "%P" => Process.pid.to_s, "%{X-Request-Id}i" => "id-1", "100%%" => "100%", "\#{env}%m" => "\#{env}GET",
      "\"%{User-Agent}i\"" => "\"curl/8 (x)\"", "%{Content-Type}i" => "text/plain", "%{Content-Type}o" => "text/html",
      "\"%{Set-Cookie}o\"" => "\"a, b\"", "%{app.user}e" => "jane", "%{Missing}i %{missing}o %{missing}e" => "- - -"
    }.each { |format, text| assert_equal "#{text}\n", written(format), format }
  end

  def test_common_can_be_written_in_directives
    assert_equal named("common").line(WHOLE, 200, 12, 0.1), written("%h %l %u %t \"%r\" %>s %b")
  end

  def test_no_bytes_are_a_dash_for_b_and_a_zero_for_capital_b
    assert_equal "- 0\n", named("%b %B").line(WHOLE, 304, 0, 0.1)
  end

  def test_a_time_may_have_a_format
    assert_match(/\A\d{4}-\d\d-\d\dT\d\d:\d\d\n\z/, written("%{%FT%H:%M}t"))
  end

  def test_no_client_can_forge_a_line_or_leave_its_quotes
    nasty = WHOLE.merge("HTTP_USER_AGENT" => "a\" b\r\n\\\xff".b)
    assert_equal "\"a\\x22 b\\x0D\\x0A\\x5C\\xFF\"\n", named("\"%{User-Agent}i\"").line(nasty, 200, 1, 1.0)
    assert_equal "a\\x22+b\\x0D\\x0A\\x5C\\xFF x\n", named("%{User-Agent}i x").line(nasty, 200, 1, 1.0), "a space would end the field"
  end

  def test_json_has_the_names_that_are_given_and_numbers_as_such
    text = named("json:status=%s, took=%D,id=%{X-Request-Id}i,agent=%{User-Agent}i,missing=%{X}i,at=%{%F,%H}t").line(WHOLE, 200, 12, 1.5)
    values = JSON.parse(text)
    assert_equal({ "status" => 200, "took" => 1_500_000, "id" => "id-1", "agent" => "curl/8 (x)", "missing" => nil }, values.except("at"))
    assert_match(/\A\d{4}-\d\d-\d\d,\d\d\z/, values["at"])
    assert_equal "\u{fffd}", JSON.parse(named("json:a=%{X}i").line({ "HTTP_X" => "\xff".b }, 200, 1, 1.0))["a"]
  end

  def test_response_headers_are_kept_only_when_they_are_logged
    assert_predicate named("%{x}o"), :response_headers?
    assert_predicate named("json:a=%{x}o"), :response_headers?
    refute_predicate named("%{x}i"), :response_headers?
    env = {}
    response = Gyre::Web::LogFormat::ResponseHeaders.new(->(_env) { [200, { "a" => "b" }, []] }).call(env)
    assert_equal [200, { "a" => "b" }, []], response
    assert_equal({ "a" => "b" }, env["gyre.response_headers"])
  end

  def test_what_is_wrong_is_refused_with_what_there_is
    { "%y" => "%y is not a directive", "%{x}z" => "%{x}z is not a directive", "%{ms}T" => "%{ms}T is not a directive",
      "%a" => "%a is not a directive", "%h\n%h" => "one line", "%" => "is not a directive", "json:" => "no fields",
      "json:a" => "write name=%directive", "json:a=%y" => "not a directive" }.each do |text, reason|
      assert_includes assert_raises(ArgumentError, text) { named(text) }.message, reason
    end
  end

  private

  def named(format) = Gyre::Web::LogFormat.named(format)

  def written(format) = named(format).line(WHOLE, 200, 12, 1.234568)

  def line(format, fields = {})
    named(format).line(ENVIRONMENT.merge(fields), 200, 12, 0.25)
  end
end
