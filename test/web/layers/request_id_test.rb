# frozen_string_literal: true

# Identifiers of requests: Gyre::Web::RequestId.

require "test_helper"
require "gyre/web/layers"

class WebRequestIdTest < Minitest::Test
  def test_a_request_without_an_id_gets_one_for_app_and_client
    env, headers = call({})
    assert_match(/\A\h{32}\z/, env["HTTP_X_REQUEST_ID"])
    assert_equal env["HTTP_X_REQUEST_ID"], headers["x-request-id"]
  end

  def test_a_valid_id_is_kept
    env, headers = call({ "HTTP_X_REQUEST_ID" => "abc-DEF_1@x" })
    assert_equal %w[abc-DEF_1@x abc-DEF_1@x], [env["HTTP_X_REQUEST_ID"], headers["x-request-id"]]
  end

  def test_others_are_replaced
    ["", "a b", "a\r\nb", "a" * 201, "a, b", "\xff".b, "a\n"].each do |text|
      assert_match(/\A\h{32}\z/, call({ "HTTP_X_REQUEST_ID" => text })[0]["HTTP_X_REQUEST_ID"], text.inspect)
    end
  end

  def test_all_are_different_also_in_a_forked_child
    layer = Gyre::Web::RequestId.new(->(_env) { [200, {}, []] })
    make = -> { {}.tap { |env| layer.call(env) }["HTTP_X_REQUEST_ID"] }
    ids = Array.new(300) { make.call }
    reader, writer = IO.pipe
    child = fork do
      writer.write(Array.new(300) { make.call }.join("\n"))
      exit!(0)
    end
    writer.close
    ids += reader.read.split("\n")
    Process.wait(child)
    ids += Array.new(300) { make.call }
    assert_equal 900, ids.uniq.size
  ensure
    reader.close
  end

  def test_the_apps_own_stays
    assert_equal "mine", call({}, { "x-request-id" => "mine" })[1]["x-request-id"]
    refute call({}, { "X-Request-Id" => "mine" })[1].key?("x-request-id")
  end

  def test_frozen_headers_and_headers_other_than_a_hash_work
    assert_equal 32, call({}, {}.freeze)[1]["x-request-id"].length
    assert_equal [["a", "b"]], call({}, [["a", "b"]])[1]
  end

  private

  def call(env, headers = {})
    layer = Gyre::Web::RequestId.new(->(_env) { [200, headers, []] })
    [env, layer.call(env)[1]]
  end
end
