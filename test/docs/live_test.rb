# frozen_string_literal: true

# The programs in docs/live.md: each page renders, and an event changes it.

require "test_helper"
require "rack"
require "http/contract"
require "websocket/serving"
require "gyre/live"

module DocsLive
  include GyreTest::WebSocketServing

  PROGRAMS = File.read(File.expand_path("../../docs/live.md", __dir__), encoding: "UTF-8").scan(/^```ruby\n(.*?)^```$/m).flatten

  def test_the_counter_counts
    check(PROGRAMS.fetch(0), '["add","10"]', "<p>Count: 0</p>", "<p>Count: 10</p>")
  end

  def test_the_board_shows_a_mark
    check(PROGRAMS.fetch(1), '["mark","4"]', '<button live-click="mark" value="4">·</button>', '<button live-click="mark" value="4">x</button>')
    assert_equal 2, PROGRAMS.size
  end

  private

  def check(code, event, before, after)
    app = Rack::Builder.new_from_string(code, "config.ru")
    serve(app.is_a?(Array) ? app.first : app) do |served|
      page = connect(served).get("GET / HTTP/1.1").body.force_encoding("UTF-8")
      assert_includes page, before
      peer = open_websocket(served)
      peer.text(JSON.generate(["", page[/data-state="([^"]+)"/, 1]]))
      assert_includes JSON.parse(peer.message)[2], before
      peer.text(event)
      assert_includes JSON.parse(peer.message)[2], after
    end
  end
end

GyreTest::HTTPContract.run(DocsLive, over: %i[http1], backends: GyreTest::Engines::NATIVE.first(1))
