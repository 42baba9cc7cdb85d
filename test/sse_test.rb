# frozen_string_literal: true

# The text of events. Streams are in sse/events_test.rb.

require "test_helper"
require "gyre/sse"

class SSEFormatTest < Minitest::Test
  def test_an_event_has_a_line_for_each_of_its_data
    assert_equal "data: one\n\n", Gyre::SSE.format("one")
    assert_equal "data: \n\n", Gyre::SSE.format("")
    assert_equal "event: tick\nid: 7\ndata: a\ndata: b\ndata: \ndata: c\ndata: \n\n", Gyre::SSE.format("a\nb\r\n\rc\n", event: "tick", id: 7)
  end

  def test_what_would_break_an_event_is_refused
    [{ event: "a\nb" }, { id: "a\rb" }, { id: "a\0" }].each do |options|
      assert_raises(ArgumentError) { Gyre::SSE.format("x", **options) }
    end
    assert_raises(ArgumentError) { Gyre::SSE.open({}) }
  end

  def test_another_server_gets_an_error_instead_of_an_empty_stream
    body = Gyre::SSE.open({}, topics: [:elsewhere]).last
    assert_match(/needs Gyre's server/, assert_raises(RuntimeError) { body.call($stderr) }.message)
  end
end
