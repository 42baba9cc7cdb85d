# frozen_string_literal: true

# The backend on IO.select. Runs on JRuby as well (test/jruby_test.rb).
require "test_helper"
require "gyre/loop"
require "socket"

class PortableSelectTest < Minitest::Test
  READABLE = IO::READABLE
  WRITABLE = IO::WRITABLE

  def setup
    @select = Gyre::Loop::Select.new
    @one, @other = UNIXSocket.pair
  end

  def teardown
    [@select, @one, @other].each(&:close)
  end

  def test_it_reports_what_is_ready_as_long_as_it_is_ready
    @select.watch(@one, READABLE)
    assert_empty @select.wait(0)
    @other.write "x"
    2.times { assert_equal({ @one.fileno => READABLE }, @select.wait(1)) }
    @select.watch(@one, READABLE | WRITABLE)
    assert_equal({ @one.fileno => READABLE | WRITABLE }, @select.wait(1))
    @select.watch(@one, WRITABLE)
    assert_equal({ @one.fileno => WRITABLE }, @select.wait(1))
    @select.unwatch(@one.fileno)
    assert_empty @select.wait(0)
  end

  def test_many_wake_ups_cost_one_write
    reader = @select.instance_variable_get(:@wakeup_reader)
    2.times do
      1_000.times { @select.wake }
      assert_equal ".", reader.read_nonblock(10)
      @select.instance_variable_get(:@wakeup_writer).write(".") # what was read above
      @select.wait(1)
    end
  end

  def test_a_descriptor_may_be_given_by_its_number
    @select.watch(@one.fileno, WRITABLE)
    assert_equal({ @one.fileno => WRITABLE }, @select.wait(1))
    refute_predicate @one, :closed?
  end

  def test_urgent_data_is_a_priority_event
    skip "select of JRuby does not tell of urgent data" if RUBY_ENGINE == "jruby"
    server = TCPServer.new("127.0.0.1", 0)
    client = TCPSocket.new("127.0.0.1", server.addr[1])
    accepted = server.accept
    @select.watch(accepted, IO::PRIORITY)
    client.send("!", Socket::MSG_OOB)
    assert_equal({ accepted.fileno => IO::PRIORITY }, @select.wait(1))
  ensure
    [server, client, accepted].compact.each(&:close)
  end

  def test_wake_ends_the_present_wait
    thread = Thread.new { @select.wait(nil) }
    eventually { thread.status == "sleep" }
    @select.wake
    assert_empty thread.value
  end

  def test_wake_ends_the_next_wait_once
    3.times { @select.wake }
    assert_empty @select.wait(nil)
    assert_operator duration_s { @select.wait(0.003) }, :>=, 0.003
  end

  def test_waking_never_waits_and_a_closed_backend_does_not_mind
    100_000.times { @select.wake }
    backend = Gyre::Loop::Select.new
    backend.close
    backend.wake
  end

  def test_a_closed_descriptor_is_reported_and_the_others_go_on_after_it_is_forgotten
    closed, writer = IO.pipe
    fd = closed.fileno
    @select.watch(closed, READABLE)
    @select.watch(@one, WRITABLE)
    closed.close
    assert_equal({ fd => 0 }, @select.wait(1))
    @select.unwatch(fd)
    assert_equal({ @one.fileno => WRITABLE }, @select.wait(1))
  ensure
    writer&.close
  end

  def test_a_number_that_nothing_follows_is_reported
    reader, writer = IO.pipe
    twin = IO.for_fd(reader.fileno, autoclose: false)
    @select.watch(twin, READABLE)
    reader.close
    assert_equal({ twin.fileno => 0 }, @select.wait(1))
    assert_raises(IOError) { @select.watch(reader, READABLE) }
  ensure
    writer.close
  end

  def test_descriptors_beyond_what_select_takes_are_named
    limited = Module.new do
      def select(*)
        raise ArgumentError, "too many descriptors"
      end
    end
    @select.watch(@one, READABLE)
    error = assert_raises(RuntimeError) { with_singleton_module(IO, limited) { @select.wait(0) } }
    assert_match(/select\(2\) cannot watch 1 descriptors.*FD_SETSIZE.*native engine/, error.message)
  end

  def test_numbers_beyond_1024_are_watched_or_named
    skip "descriptors are limited to #{Process.getrlimit(:NOFILE).first}" if Process.getrlimit(:NOFILE).first < 1200
    ios = Array.new(1100) { File.open(File::NULL) }
    reader, writer = IO.pipe
    assert_operator reader.fileno, :>, 1024
    @select.watch(reader, READABLE)
    writer.write "x"
    assert_equal({ reader.fileno => READABLE }, @select.wait(1))
  rescue RuntimeError => error
    assert_match(/FD_SETSIZE/, error.message)
  ensure
    [*ios, reader, writer].compact.each(&:close)
  end

  private

  # A module's methods in front of an object's own while the block runs; removed from it afterwards.
  def with_singleton_module(object, replacement)
    object.singleton_class.prepend(replacement)
    yield
  ensure
    replacement.instance_methods.each { |name| replacement.remove_method(name) }
  end
end
