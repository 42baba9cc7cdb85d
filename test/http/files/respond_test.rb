# frozen_string_literal: true

# Preconditions and ranges of files: Gyre::HTTP::Files::Respond (RFC 9110, sections 13 and 14).

require "test_helper"
require "gyre/http/files/respond"

class HTTPFilesRespondTest < Minitest::Test
  CONTENT = "0123456789".b.freeze
  DATE = "Sat, 21 Nov 2026 08:00:00 GMT"
  EARLIER = "Sat, 21 Nov 2026 07:59:59 GMT"
  LATER = "Sat, 21 Nov 2026 08:00:01 GMT"

  # Range of a file of 10 bytes => status and body.
  RANGES = {
    "bytes=0-0" => [206, "0"], "bytes=2-4" => [206, "234"], "bytes=5-" => [206, "56789"], "bytes=-3" => [206, "789"],
    "bytes=0-99" => [206, CONTENT], "bytes=-99" => [206, CONTENT], "BYTES=1-1" => [206, "1"], "bytes= 1-1 " => [206, "1"],
    "bytes=10-" => [416, ""], "bytes=99-100" => [416, ""], "bytes=-0" => [416, ""],
    "bytes=4-2" => [200, CONTENT], "bytes=" => [200, CONTENT], "bytes=-" => [200, CONTENT], "bytes=a-b" => [200, CONTENT],
    "bytes=+1-2" => [200, CONTENT], "bytes=1-2-3" => [200, CONTENT], "lines=1-2" => [200, CONTENT], "bytes" => [200, CONTENT],
    "bytes=1-2;x" => [200, CONTENT], "bytes=#{"9" * 30}-" => [200, CONTENT],
    # Several ranges: Apache CVE-2011-3192, Rack CVE-2024-26141.
    "bytes=7-8,-1,0-1" => [200, CONTENT], "bytes=0-,0-,0-,0-" => [200, CONTENT], "bytes=1-1 , 99-" => [200, CONTENT],
    "bytes=#{"0-1," * 400}" => [200, CONTENT]
  }.freeze

  def test_ranges_select_parts_of_the_file
    RANGES.each do |range, (status, body)|
      got = respond("HTTP_RANGE" => range)
      assert_equal [status, body], [got[0], got[2].join], range
      assert_equal "bytes */10", got[1]["content-range"], range if status == 416
      assert_equal body.bytesize.to_s, got[1]["content-length"], range
    end
  end

  def test_a_range_of_an_empty_file_cannot_be_satisfied
    assert_equal 416, respond({ "HTTP_RANGE" => "bytes=0-" }, content: "")[0]
    assert_equal 416, respond({ "HTTP_RANGE" => "bytes=-1" }, content: "")[0]
  end

  def test_the_range_is_named
    headers = respond("HTTP_RANGE" => "bytes=2-4")[1]
    assert_equal ["bytes 2-4/10", "text/plain", "bytes"], headers.values_at("content-range", "content-type", "accept-ranges")
  end

  def test_only_get_has_ranges
    status, headers, body = respond("REQUEST_METHOD" => "HEAD", "HTTP_RANGE" => "bytes=0-1")
    assert_equal [200, "10", []], [status, headers["content-length"], body]
  end

  # Conditions => status.
  CONDITIONS = {
    { "HTTP_IF_NONE_MATCH" => '"tag"' } => 304, { "HTTP_IF_NONE_MATCH" => 'W/"tag"' } => 304, { "HTTP_IF_NONE_MATCH" => "*" } => 304,
    { "HTTP_IF_NONE_MATCH" => '"a", "tag"' } => 304, { "HTTP_IF_NONE_MATCH" => '"a"' } => 200, { "HTTP_IF_NONE_MATCH" => "tag" } => 200,
    { "HTTP_IF_MODIFIED_SINCE" => DATE } => 304, { "HTTP_IF_MODIFIED_SINCE" => LATER } => 304, { "HTTP_IF_MODIFIED_SINCE" => EARLIER } => 200,
    { "HTTP_IF_MODIFIED_SINCE" => "yesterday" } => 200, { "HTTP_IF_MODIFIED_SINCE" => "" } => 200,
    { "HTTP_IF_NONE_MATCH" => '"a"', "HTTP_IF_MODIFIED_SINCE" => DATE } => 200,
    { "HTTP_IF_NONE_MATCH" => '"tag"', "HTTP_IF_MODIFIED_SINCE" => EARLIER } => 304,
    { "HTTP_IF_MATCH" => '"tag"' } => 200, { "HTTP_IF_MATCH" => "*" } => 200,
    { "HTTP_IF_MATCH" => '"a"' } => 412, { "HTTP_IF_MATCH" => 'W/"tag"' } => 412,
    { "HTTP_IF_UNMODIFIED_SINCE" => DATE } => 200, { "HTTP_IF_UNMODIFIED_SINCE" => EARLIER } => 412, { "HTTP_IF_UNMODIFIED_SINCE" => "x" } => 200,
    { "HTTP_IF_MATCH" => '"tag"', "HTTP_IF_UNMODIFIED_SINCE" => EARLIER } => 200,
    { "HTTP_IF_MATCH" => '"tag"', "HTTP_IF_NONE_MATCH" => '"tag"' } => 304,
    { "HTTP_IF_RANGE" => '"tag"', "HTTP_RANGE" => "bytes=0-1" } => 206, { "HTTP_IF_RANGE" => '"a"', "HTTP_RANGE" => "bytes=0-1" } => 200,
    { "HTTP_IF_RANGE" => 'W/"tag"', "HTTP_RANGE" => "bytes=0-1" } => 200, { "HTTP_IF_RANGE" => EARLIER, "HTTP_RANGE" => "bytes=0-1" } => 200,
    { "HTTP_IF_RANGE" => LATER, "HTTP_RANGE" => "bytes=0-1" } => 200, { "HTTP_IF_RANGE" => "", "HTTP_RANGE" => "bytes=0-1" } => 200,
    { "HTTP_IF_RANGE" => '"tag"' } => 200, { "HTTP_IF_NONE_MATCH" => '"tag"', "HTTP_RANGE" => "bytes=0-1" } => 304,
    { "HTTP_IF_MATCH" => '"a"', "HTTP_RANGE" => "bytes=99-" } => 412
  }.freeze

  # RFC 9110, sections 13.1.1 and 13.1.5: a weak tag is the same for different bytes.
  def test_a_weak_tag_selects_no_part_and_matches_no_strong_condition
    weak = ->(env) { Gyre::HTTP::Files::Respond.call({ "REQUEST_METHOD" => "GET", **env }, { "etag" => 'W/"tag"' }, 3, "abc").first }
    ['W/"tag"', ' W/"tag"', '"tag"'].each { |tag| assert_equal 200, weak.call("HTTP_IF_RANGE" => tag, "HTTP_RANGE" => "bytes=0-1") }
    assert_equal 412, weak.call("HTTP_IF_MATCH" => 'W/"tag"')
    assert_equal 304, weak.call("HTTP_IF_NONE_MATCH" => '"tag"')
  end

  def test_conditions_decide_the_status
    CONDITIONS.each { |conditions, status| assert_equal status, respond(conditions)[0], conditions }
  end

  def test_a_date_is_a_strong_validator_once_it_is_past
    old = "Sat, 22 Nov 2025 08:00:00 GMT"
    fresh = Time.now.utc.strftime("%a, %d %b %Y %H:%M:%S GMT")
    statuses = [old, fresh].map { |date| respond({ "HTTP_IF_RANGE" => date, "HTTP_RANGE" => "bytes=0-1" }, modified: date)[0] }
    assert_equal [206, 200], statuses
  end

  def test_a_304_keeps_only_the_headers_for_caches
    status, headers, body = respond({ "HTTP_IF_NONE_MATCH" => '"tag"' }, more: { "vary" => "accept-encoding", "cache-control" => "no-cache" })
    assert_equal [304, %w[cache-control etag last-modified vary], []], [status, headers.keys.sort, body]
  end

  private

  def respond(env, options = {})
    content = options.fetch(:content, CONTENT)
    headers = { "content-type" => "text/plain", "etag" => '"tag"', "last-modified" => options.fetch(:modified, DATE),
                "accept-ranges" => "bytes" }.merge(options.fetch(:more, {}))
    Gyre::HTTP::Files::Respond.call({ "REQUEST_METHOD" => "GET" }.merge(env), headers, content.bytesize, content) { flunk "the file was asked for" }
  end
end
