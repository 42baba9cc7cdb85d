# frozen_string_literal: true

# What a server prints when it starts: Gyre::Web::Banner.

require "test_helper"
require "gyre/web"

class WebBannerTest < Minitest::Test
  def test_it_names_version_backend_addresses_environment_and_process
    server = Gyre::Web::Server.new(->(_env) {}, bind: "127.0.0.1:0").listen
    assert_match(/\AGyre #{Regexp.escape(Gyre::VERSION)} on \w+ [\d.]+.*\n  backend: \w+ .*\n  listening on #{server.urls.first}\n/,
                 Gyre::Web::Banner.text(server, "test"))
    assert_includes Gyre::Web::Banner.text(server, "test"), "\n  environment test, process #{Process.pid}\nUse Ctrl-C to stop"
    assert_includes Gyre::Web::Banner.text(server, nil), "\n  process #{Process.pid}\n"
    server.close
  end

  def test_an_address_for_proxies_is_marked
    server = Gyre::Web::Server.new(->(_env) {}, bind: ["127.0.0.1:0?proxy_protocol=v1", "127.0.0.1:0"]).listen
    assert_match(/^  listening on #{server.urls.first}, for proxies that send a PROXY header \(v1\)\n  listening on #{server.urls.last}$/,
                 Gyre::Web::Banner.text(server, nil))
    server.close
  end
end
