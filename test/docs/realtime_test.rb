# frozen_string_literal: true

# The programs in docs/realtime.md, served: what a client sends (>) and gets (<) is as the guide
# shows.

require "test_helper"
require "rack"
require "http/contract"
require "websocket/serving"
require "gyre/broadcast"

module DocsRealtime
  include GyreTest::WebSocketServing

  TEXT = File.read(File.expand_path("../../docs/realtime.md", __dir__), encoding: "UTF-8")
  PROGRAMS = TEXT.scan(/^```ruby\n(.*?)^```\n\n```text\n(.*?)^```$/m)

  def test_the_guide_has_a_conversation_for_each_program
    assert_equal [7, 7], [PROGRAMS.size, TEXT.scan(/^```ruby$/).size]
  end

  PROGRAMS.each_with_index do |(code, conversation), index|
    define_method(:"test_program_#{index + 1}") do
      app = Rack::Builder.new_from_string(code, "config.ru")
      serve(app.is_a?(Array) ? app.first : app) do |served|
        code.include?("SSE") ? check_events(served, code, conversation) : check(served, conversation)
      end
    end
  end

  def test_the_table_has_the_limits_and_their_defaults
    rows = TEXT.scan(/^\| `(\w+_(?:limit|s))` \| (\w+) \|/).to_h
    assert_equal Gyre::WebSocket::Limits::TABLE.to_h { |row| [row.name.to_s, row.default] },
      rows.to_h { |name, default| [name, Gyre::WebSocket::Limits.new(name.to_sym => default).public_send(name)] }
  end

  private

  def check(served, conversation)
    peer = open_websocket(served, "/garden")
    conversation.each_line(chomp: true) do |line|
      line.start_with?("> ") ? peer.text(line[2..]) : assert_equal(line[2..], peer.message)
    end
  end

  def check_events(served, code, conversation)
    listens = code.include?("topics:")
    client = connect(served).request
    client.take_through("\r\n\r\n")
    lines = +""
    expected = conversation.gsub(/^< /, "")
    eventually { Gyre::Broadcast.publish("news", "now") == 1 } if listens
    lines << client.take_through("\n\n").gsub(/\n+/, "\n") until lines.bytesize >= expected.bytesize
    assert_equal(*[expected, lines].map { |text| text.gsub(/^id: \d{13}$/, "id: milliseconds") })
  end
end

GyreTest::HTTPContract.run(DocsRealtime, over: %i[http1], backends: %w[epoll] & GyreTest::Engines::NATIVE)
