# frozen_string_literal: true

# The lines of the access log, and that no client can forge one: Gyre::Web::LogFormat.

require "test_helper"
require "json"
require "time"
require "gyre/web/log_format"

class WebLogFormatTest < Minitest::Test
  ENVIRONMENT = {
    "REMOTE_ADDR" => "127.0.0.1", "REQUEST_METHOD" => "GET", "SCRIPT_NAME" => "", "PATH_INFO" => "/hello",
    "QUERY_STRING" => "", "SERVER_PROTOCOL" => "HTTP/1.1", "HTTP_HOST" => "localhost"
  }.freeze
  NASTY = "a\"b\\c\r\nforged - - [] \x00\x1b\x7f\xff\u00e9".b

  def test_common_is_the_ncsa_format
    assert_match %r{\A127\.0\.0\.1 - - \[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\] "GET /hello HTTP/1\.1" 200 12\n\z},
                 line("common")
  end

  def test_the_target_is_what_the_client_sent
    assert_includes line("common", "REQUEST_URI" => "http://h/a?b", "PATH_INFO" => "/changed"), "\"GET http://h/a?b HTTP/1.1\""
  end

  def test_without_the_target_it_is_put_together_again
    assert_includes line("common", "SCRIPT_NAME" => "/app", "QUERY_STRING" => "a=b"), "\"GET /app/hello?a=b HTTP/1.1\""
  end

  def test_the_time_is_the_present_second
    log = Gyre::Web::LogFormat.named("common")
    written = Time.strptime(log.line(ENVIRONMENT, 200, 0, 0.0)[/\[(.*?)\]/, 1], "%d/%b/%Y:%H:%M:%S %z")
    assert_in_delta Time.now.to_f, written.to_f, 2
  end

  def test_combined_adds_referer_and_user_agent
    text = line("combined", "HTTP_REFERER" => "http://a/", "HTTP_USER_AGENT" => "curl/8")
    assert text.end_with?("\" 200 12 \"http://a/\" \"curl/8\"\n"), text
    assert line("combined").end_with?("200 12 \"-\" \"-\"\n")
  end

  def test_json_is_an_object_a_line
    record = JSON.parse(line("json", "QUERY_STRING" => "a=b", "HTTP_USER_AGENT" => "curl/8"))
    assert_equal ["GET", "/hello?a=b", 200, 12, 0.25, "curl/8", "localhost", nil],
                 record.values_at("method", "target", "status", "bytes", "duration_s", "user_agent", "host", "referer")
    assert_in_delta Time.now.to_f, Time.iso8601(record["time"]).to_f, 2
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
    log = Gyre::Web::LogFormat.named("common")
    assert_match(/\A192\.0\.2\.1 - - \[.*\] "- - -" 408 12\n\z/, log.line({ "REMOTE_ADDR" => "192.0.2.1" }, 408, 12, 0.0))
    assert_match(/ "PUT - -" 414 12\n\z/, log.line({ "REMOTE_ADDR" => "", "REQUEST_METHOD" => "PUT" }, 414, 12, 0.0))
    record = JSON.parse(Gyre::Web::LogFormat.named("json").line({ "REMOTE_ADDR" => "192.0.2.1" }, 400, 12, 0.0))
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
    assert_match(/\A- - - \[.*\] "GET - HTTP\/1.1" 200 12\n\z/, line("common", "REMOTE_ADDR" => nil, "PATH_INFO" => nil))
  end

  def test_behind_a_unix_socket_the_proxy_has_the_address_of_the_client
    assert_match(/\Aunix: - - \[/, line("common", "REMOTE_ADDR" => ""))
    assert_match(/\A192\.0\.2\.1 - - \[/, line("combined", "REMOTE_ADDR" => "", "HTTP_X_FORWARDED_FOR" => "203.0.113.9, 192.0.2.1"))
    assert_match(/\A\\x22a\+b - - \[/, line("common", "REMOTE_ADDR" => "", "HTTP_X_FORWARDED_FOR" => "\"a b"))
    assert_match(/"remote":"unix:"/, line("json", "REMOTE_ADDR" => ""))
    assert_match(/\A127\.0\.0\.1 - - \[/, line("common", "HTTP_X_FORWARDED_FOR" => "192.0.2.1"), "over TCP a client could forge it")
  end

  def test_none_has_no_format
    assert_nil Gyre::Web::LogFormat.named("none")
  end

  def test_an_unknown_format_is_refused_with_those_that_exist
    error = assert_raises(ArgumentError) { Gyre::Web::LogFormat.named("clf") }
    assert_includes error.message, "none, common, combined, json"
  end

  private

  def line(format, fields = {})
    Gyre::Web::LogFormat.named(format).line(ENVIRONMENT.merge(fields), 200, 12, 0.25)
  end
end
