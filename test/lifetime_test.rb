# frozen_string_literal: true

# The contract of Gyre::Lifetime, with a server that only notes what is asked of it.

require "test_helper"
require "gyre"
require "gyre/lifetime"

class LifetimeTest < Minitest::Test
  # Ends when it is told to.
  class Server < Gyre::Lifetime
    attr_reader :asked

    def initialize(**options)
      super("server", **options)
      @asked = []
    end

    def note(step, *arguments) = @asked.push([step, *arguments])

    private

    def on_start = yield

    def on_stop(now)
      note(:stop, now)
      post(:ended) if now
    end

    def on_stop_now = note(:stop_now) && post(:ended)

    def on_reload = reloading { note(:reload) }

    def on_ended = note(:ended)

    def on_finish = note(:finish, @phase)
  end

  Manager = Struct.new(:told) do
    def stopping = told.push(:stopping)

    def reloading = yield.tap { told.push(:reloading) }
  end

  def test_a_second_stop_is_one_at_once
    server = Server.new(signals: false, manager: Manager.new([]))
    server.run do
      server.reload
      2.times { server.stop }
    end
    assert_equal [[:reload], [:stop, false], [:stop_now], [:ended], %i[finish ended]], server.asked
    assert_equal %i[reloading stopping], server.instance_variable_get(:@manager).told
  end

  def test_an_exception_ends_it_and_releases_everything
    server = Server.new(signals: false)
    assert_raises(ArgumentError) { server.run { raise ArgumentError } }
    assert_equal [%i[finish broken]], server.asked
  end

  def test_it_handles_the_signals_of_its_steps_and_no_others
    former = trap("USR1", "IGNORE")
    server = Server.new
    server.run do
      Process.kill(:USR1, Process.pid)
      %i[HUP TERM INT].each { |name| Process.kill(name, Process.pid) && sleep(0.01) }
    end
    assert_equal [[:reload], [:stop, false], [:stop_now], [:ended], %i[finish ended]], server.asked
  ensure
    trap("USR1", former)
  end
end
