# frozen_string_literal: true

# What a acceptor does when accepting fails.

require "test_helper"
require "gyre/log/server/acceptor"

class LogAcceptorTest < Minitest::Test
  # What a acceptor needs of a hub and its loop, in one.
  class Hub
    attr_reader :calls

    def initialize
      @calls = []
    end

    def loop = self
    def flow = self
    def complaints = self
    def held? = false
    def update_clock = nil

    %i[watch_io unwatch add resume_later].each { |name| define_method(name) { |*arguments| @calls << [name, *arguments] } }
  end

  # A listener and its socket in one, which fails.
  class Failing < Gyre::Listener
    attr_reader :accepts

    def initialize(error)
      super(self, nil)
      @error = error
      @accepts = 0
    end

    def closed? = false

    def accept_nonblock(**)
      raise "it tries on and on" if (@accepts += 1) > 1000

      raise @error
    end
  end

  # Returns how often it accepted in one turn, and what it then asked of the hub.
  def turn(error)
    hub, listener = Hub.new, Failing.new(error)
    acceptor = Gyre::Log::Acceptor.new(hub, listener, nil)
    acceptor.resume
    acceptor.ready
    [listener.accepts, hub.calls.drop(1).map(&:first)]
  end

  def test_connections_that_have_gone_again_are_bounded_as_others_are
    assert_equal [Gyre::Log::Acceptor::ACCEPTS, []], turn(Errno::ECONNABORTED)
  end

  def test_a_socket_that_accepts_no_more_is_left_alone_for_a_while
    [Errno::EINVAL, Errno::EMFILE, Errno::ENOTSOCK].each { |error| assert_equal [1, %i[unwatch add resume_later]], turn(error), error }
  end
end
