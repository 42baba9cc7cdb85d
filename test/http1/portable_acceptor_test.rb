# frozen_string_literal: true

# What the portable acceptor does with connections is in test/contracts/http1_contract_*_test.rb; this is its own scheduler's
# and its socket's side.

require "test_helper"
require "gyre/http1"
require "gyre/http1/portable_acceptor"

class HTTP1PortableAcceptorTest < Minitest::Test
  # A scheduler that notes what it is asked for and never calls back.
  class Notes
    Handle = Struct.new(:cancelled) do
      def cancel = self.cancelled = true
    end

    attr_reader :watches, :timers

    def initialize
      @watches = []
      @timers = []
    end

    def watch(io, events, &block)
      Handle.new(false).tap { |handle| @watches << [io, events, block, handle] }
    end

    def after(seconds, &block)
      Handle.new(false).tap { |handle| @timers << [seconds, block, handle] }
    end

    def spawn(*)
      raise FiberError, "can't alloc machine stack to fiber"
    end
  end

  def setup
    @listener = TCPServer.new("127.0.0.1", 0)
    @errors = []
    @handler = Object.new
    errors = @errors
    @handler.define_singleton_method(:error) { |message| errors << message }
    @notes = Notes.new
    @acceptor = Gyre::HTTP1::PortableAcceptor.new([@listener], @handler, Gyre::HTTP1::Limits.new, Gyre::HTTP1::Env.template)
    @acceptor.instance_variable_set(:@scheduler, @notes)
    @acceptor.start
  end

  def teardown
    @acceptor.close
    @listener.close
  end

  def connect
    client = TCPSocket.new("127.0.0.1", @listener.local_address.ip_port)
    @notes.watches.first[2].call(IO::READABLE)
    yield client
  ensure
    client&.close
  end

  def test_it_watches_its_sockets_until_it_is_stopped
    assert_equal [@listener, IO::READABLE], @notes.watches.first[0, 2]
    @acceptor.stop
    assert @notes.watches.first.last.cancelled
  end

  def test_a_new_connection_is_watched_with_a_time_for_its_first_byte
    connect do
      assert_equal [1, 1, 1], @acceptor.stats.values_at(:connections, :idle, :accepted)
      assert_equal [30], @notes.timers.map(&:first)
      @acceptor.drain
      assert_equal 0, @acceptor.stats[:connections]
      assert_equal [true] * 2, @notes.watches.map { |*, handle| handle.cancelled }
    end
  end

  def test_a_request_for_which_there_is_no_fiber_ends_its_connection_and_is_said
    connect do |client|
      client.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n")
      client.flush
      IO.select([@notes.watches.last.first])
      @notes.watches.last[2].call(IO::READABLE)
      assert_equal 0, @acceptor.stats[:connections]
      assert_match(/no fiber for a request/, @errors.fetch(0))
    end
  end

  def test_after_a_shortage_accepting_pauses_and_goes_on
    def @listener.accept_nonblock(**) = raise(Errno::EMFILE)
    @notes.watches.first[2].call(IO::READABLE)
    assert @notes.watches.first.last.cancelled
    assert_match(/cannot accept connections: Too many open files/, @errors.fetch(0))
    seconds, again, = @notes.timers.last
    assert_equal 1.0, seconds
    again.call
    assert_equal [@listener, false], @notes.watches.last.then { |io, *, handle| [io, handle.cancelled] }
    @acceptor.stop
    again.call
    assert_equal 2, @notes.watches.size
  end
end
