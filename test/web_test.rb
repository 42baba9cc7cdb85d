# frozen_string_literal: true

# The shortest way to serve an app from a program: Gyre::Web.serve.

require "test_helper"
require "net/http"
require "gyre/web"

class WebTest < Minitest::Test
  HELLO = ->(_env) { [200, { "content-type" => "text/plain" }, ["hello"]] }

  def test_signals_stop_it_and_find_their_old_handlers_afterwards
    seen = []
    before = trap("INT") { seen << :mine }
    Gyre::Web.serve(HELLO, bind: "127.0.0.1:0") do |server|
      assert_equal "hello", Net::HTTP.get(URI(server.urls.first))
      Process.kill("INT", Process.pid)
    end
    assert_empty seen
    Process.kill("INT", Process.pid)
    eventually { seen == [:mine] }
  ensure
    trap("INT", before)
  end
end
