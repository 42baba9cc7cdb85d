# frozen_string_literal: true

# Responses without an end of their own, and how they are ended. (In a server:
# test/web/server_test.rb.)

require "test_helper"
require "socket"
require "gyre"
require "gyre/http/open_responses"

class HTTPOpenResponsesTest < Minitest::Test
  # A Response as OpenResponses sees it.
  Response = Struct.new(:progress)

  def setup
    @open = Gyre::HTTP::OpenResponses.new
    @events = []
  end

  def test_endless_responses_get_a_stop_and_are_forgotten
    Gyre.run do |task|
      open = task.async { note { @open.endless { sleep } } }
      assert_equal 1, @open.count
      @open.finish
      open.wait
      assert_equal [[:stop, 0]], @events
    end
  end

  def test_a_late_one_does_not_begin
    Gyre.run do
      @open.finish
      assert_raises(Gyre::Stop) { @open.endless { flunk } }
      assert_equal :value, @open.streaming(Response.new(0)) { :value }
    end
  end

  def test_a_streaming_body_is_ended_when_it_has_sent_nothing_between_two_looks
    response = Response.new(0)
    Gyre.run do |task|
      open = task.async { note { @open.streaming(response) { sleep } } }
      @open.finish
      @open.finish_quiet
      response.progress = 5
      @open.finish_quiet
      response.progress = nil # a write waits for the client
      @open.finish_quiet
      response.progress = nil
      @open.finish_quiet
      response.progress = 10
      @open.finish_quiet
      task.yield
      assert_empty @events
      @open.finish_quiet
      open.wait
      assert_equal [[:stop, 0]], @events
    end
  end

  def test_hijacked_sockets_read_their_end_and_can_write_until_the_last
    ours, theirs = UNIXSocket.pair
    @open.hijacked(ours, true)
    Gyre.run { @open.finish }
    assert_equal "", ours.read
    ours.write("bye")
    assert_equal "bye", theirs.readpartial(3)
    @open.close
    assert_raises(Errno::EPIPE) { ours.write("more") }
    ours.close
    @open.close # closed ones do no harm
  ensure
    [ours, theirs].each(&:close)
  end

  def test_the_clients_own_sockets_are_away_until_they_are_closed
    sockets = UNIXSocket.pair
    sockets.zip([true, false]) { |socket, away| @open.hijacked(socket, away) }
    assert_equal 1, @open.away
    sockets.each(&:close)
    assert_equal 0, @open.away
  end

  def test_a_socket_hijacked_late_reads_its_end
    ours, theirs = UNIXSocket.pair
    Gyre.run { @open.finish }
    @open.hijacked(ours, true)
    assert_equal "", ours.read
  ensure
    [ours, theirs].each(&:close)
  end

  private

  def note
    yield
  rescue Gyre::Stop
    @events << [:stop, @open.count]
    raise
  end
end
