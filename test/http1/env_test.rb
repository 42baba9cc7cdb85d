# frozen_string_literal: true

# What the engines make of requests is in test/contracts/http1_contract_messages_test.rb and http1_contract_env_test.rb.

require "test_helper"
require "stringio"
require "gyre/http1/env"
require "gyre/http1/parser"
require "http1/fake_connection"

class HTTP1EnvTest < Minitest::Test
  Env = Gyre::HTTP1::Env

  def build(bytes, **options)
    head = Gyre::HTTP1::Parser.new
    assert_operator head.parse(bytes.b), :>, 0, head.reason
    connection = GyreTest::FakeConnection.new
    def connection.remote_address = "192.0.2.1"
    def connection.trailers = {}
    Env.build(Env.template(**options), head, connection, "server.test", "8080")
  end

  def test_the_template_is_frozen_and_so_are_its_strings
    template = Env.template
    assert template.frozen?
    assert_empty template.values.grep(String).reject(&:frozen?)
    assert_equal ["http", nil], template.values_at("rack.url_scheme", "HTTPS")
    assert_equal %w[https on], Env.template(scheme: "https").values_at("rack.url_scheme", "HTTPS")
    assert_same $stderr, template["rack.errors"]
    errors = StringIO.new
    assert_same errors, Env.template(errors: errors)["rack.errors"]
  end

  def test_every_place_that_the_template_keeps_is_filled
    assert_empty(build("GET / HTTP/1.0\r\n\r\n").select { |_, value| value.nil? })
  end

  def test_a_request_does_not_change_the_template
    template = Env.template
    before = template.dup
    build("GET /x HTTP/1.1\r\nhost: a\r\n\r\n")
    assert_equal before, template
  end

  def test_without_an_authority_the_sockets_name_is_taken
    env = build("GET / HTTP/1.0\r\n\r\n")
    assert_equal ["server.test", "8080", nil, "HTTP/1.0"], env.values_at("SERVER_NAME", "SERVER_PORT", "HTTP_HOST", "SERVER_PROTOCOL")
  end

  def test_the_default_port_is_the_schemes
    assert_equal "80", build("GET / HTTP/1.1\r\nhost: a\r\n\r\n")["SERVER_PORT"]
    assert_equal "443", build("GET / HTTP/1.1\r\nhost: a\r\n\r\n", scheme: "https")["SERVER_PORT"]
    assert_equal ["[::1]", "81"], build("GET / HTTP/1.1\r\nhost: [::1]:81\r\n\r\n").values_at("SERVER_NAME", "SERVER_PORT")
  end

  def test_the_connection_is_hijack_and_hints_at_once
    env = build("GET / HTTP/1.1\r\nhost: a\r\n\r\n")
    assert_same env["rack.hijack"], env["rack.early_hints"]
    assert_equal "192.0.2.1", env["REMOTE_ADDR"]
  end

  def test_only_a_request_with_a_body_has_an_input_of_its_own
    assert_same Gyre::HTTP1::Input::EMPTY, build("GET / HTTP/1.1\r\nhost: a\r\n\r\n")["rack.input"]
    assert_same Gyre::HTTP1::Input::EMPTY, build("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n")["rack.input"]
    sized = build("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n\r\n")
    assert_instance_of Gyre::HTTP1::Input, sized["rack.input"]
    refute sized.key?("gyre.trailers")
    chunked = build("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n")
    assert_instance_of Gyre::HTTP1::Input, chunked["rack.input"]
    assert_equal({}, chunked["gyre.trailers"].call)
  end

  def test_rack_protocol_is_what_the_client_offers
    assert_equal %w[chess echo/2], build("GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: chess , echo/2,\r\n\r\n")["rack.protocol"]
    refute build("GET / HTTP/1.1\r\nhost: a\r\nupgrade: chess\r\n\r\n").key?("rack.protocol")
  end
end
