# frozen_string_literal: true

require "test_helper"
require "gyre/web/layers"

class WebHealthTest < Minitest::Test
  def call(health, path, method = "GET")
    status, headers, body = health.call({ "PATH_INFO" => path, "REQUEST_METHOD" => method })
    [status, headers["retry-after"], body.join]
  end

  def setup
    @trouble = nil
    @health = Gyre::Web::HealthCheck.new(->(_env) { [204, {}, []] }, health_path: "/up", ready_path: "/ready") { @trouble }
  end

  def test_both_paths_are_answered_without_the_app_and_all_others_by_it
    assert_equal [[200, nil, "ok\n"]] * 2, ["/up", "/ready"].map { |path| call(@health, path) }
    assert_equal [204, nil, ""], call(@health, "/up/other")
    assert_equal %w[/up /ready], @health.paths
  end

  def test_a_server_that_is_not_ready_is_healthy
    @trouble = "the server stops"
    assert_equal [200, nil, "ok\n"], call(@health, "/up")
    assert_equal [503, "1", "the server stops\n"], call(@health, "/ready")
  end

  def test_only_get_and_head_are_allowed
    assert_equal 200, call(@health, "/up", "HEAD").first
    assert_equal 405, call(@health, "/up", "POST").first
  end

  def test_a_path_that_is_not_set_is_the_apps
    health = Gyre::Web::HealthCheck.new(->(_env) { [204, {}, []] }, health_path: "/up")
    assert_equal 204, call(health, "/ready").first
    assert_equal ["/up"], health.paths
  end
end
