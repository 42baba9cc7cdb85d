# frozen_string_literal: true

require "test_helper"
require "event_machine/reactors"
require "tmpdir"

# No byte stands still and none is dropped, and errors keep their reason.
class EventMachineDeliveriesTest < Minitest::Test
  include GyreTest::Reactors

  BYTES = 100_000

  # Counts its bytes; after each piece it raises, or pauses for a tick.
  class Interrupted < EM::Connection
    def initialize(secure, action, told)
      super
      @secure, @action, @told = secure, action, told
    end

    def post_init = (start_tls if @secure)

    def receive_data(data)
      @told.call(data.bytesize)
      raise "told" if @action == :raise

      pause
      Gyre::EventMachine.next_tick { resume }
    end
  end

  def test_bytes_behind_an_exception_or_a_pause_are_delivered
    EM.error_handler { |error| raise error unless error.message == "told" }
    [[false, :raise], [false, :pause], [true, :raise], [true, :pause]].each do |secure, action|
      next if secure && !EM.ssl?

      received = 0
      run_reactor do
        port = serve(Interrupted, secure, action, ->(count) { EM.stop if (received += count) == BYTES })
        EM.connect("127.0.0.1", port, Told, lambda { |name, connection, *|
          connection.start_tls if secure && name == :connection_completed
          connection.send_data("x" * BYTES) if name == (secure ? :ssl_handshake_completed : :connection_completed)
        })
      end
      assert_equal BYTES, received, "TLS: #{secure}, #{action}"
    end
  end

  def test_a_detached_connections_queued_bytes_come_before_those_of_its_new_owner
    received = +""
    run_reactor do
      port = serve(Told, lambda { |name, connection, *|
        next unless name == :post_init

        connection.send_data("queued ")
        io = Socket.for_fd(connection.detach)
        EM.next_tick { io.write("written") && io.close }
      })
      EM.connect("127.0.0.1", port, Told, ->(name, _, data = nil) { name == :receive_data ? received << data : (EM.stop if name == :unbind) })
    end
    assert_equal "queued written", received
  end

  # A descriptor whose kernel takes bytes, or takes none.
  Busy = Struct.new(:unsent_bytes, :idle_s, :timers) do
    def connecting? = false
    def active = self.idle_s = 0
    def reactor = self
    def add_timer(_, callable) = timers << callable
    def cancel_timer(_) = nil
    def fail_with(reason) = timers << reason
  end

  def test_bytes_that_the_kernel_takes_are_activity
    descriptor = Busy.new(100, 0, [])
    EM::Limits.new(descriptor).change(:silence_s, 4)
    descriptor.unsent_bytes, descriptor.idle_s = 50, 5
    descriptor.timers.shift.call
    assert_equal 0, descriptor.idle_s
    descriptor.idle_s = 5
    descriptor.timers.shift.call
    assert_equal [Errno::ETIMEDOUT], descriptor.timers
  end

  def test_asking_for_the_error_of_a_refused_connection_leaves_its_reason
    reasons = []
    run_reactor do
      connection = EM.connect("127.0.0.1", free_port, Told, ->(name, _, reason = nil) { (reasons << reason) && EM.stop if name == :unbind })
      reasons << connection.error?
    end
    assert_equal Errno::ECONNREFUSED, reasons.last
  end

  def test_a_unix_server_with_a_full_queue_is_asked_again
    Dir.mktmpdir do |folder|
      server = UNIXServer.new(path = "#{folder}/socket")
      server.listen(0)
      waiting = []
      loop { waiting << Socket.new(:UNIX, :STREAM).tap { |socket| socket.connect_nonblock(Socket.sockaddr_un(path)) } }
    rescue IO::WaitWritable, Errno::EAGAIN
      completed = false
      run_reactor do
        EM.connect_unix_domain(path, Told, ->(name, *) { (completed = true) && EM.stop if name == :connection_completed })
        EM.add_timer(0.02) { (waiting.size + 1).times { server.accept_nonblock(exception: false) } }
      end
      assert completed
    ensure
      [*waiting, server].each(&:close)
    end
  end

  def test_programs_find_what_they_look_into
    found = []
    IO.pipe do |reader, _|
      run_reactor do
        EM.watch(reader) { |watch| found << watch.instance_variable_get(:@io).equal?(reader) }
        found << EM.instance_variable_get(:@reactor_running)
        EM.stop
      end
    end
    assert_equal [true, true, false], [*found, EM.instance_variable_get(:@reactor_running)]
  end
end
