# frozen_string_literal: true

require "test_helper"
require "event_machine/reactors"
require "stringio"
require "tempfile"

# What is no TCP connection: packets, watched and attached IOs, child processes, files, proxies.
class EventMachineDescriptorsTest < Minitest::Test
  include GyreTest::Reactors

  # Answers packets.
  module Reply
    def receive_data(data) = send_data("#{data}!")
  end

  def test_packets_are_answered_to_their_sender
    received = nil
    run_reactor do
      server = EM.open_datagram_socket("127.0.0.1", 0, Reply)
      port = Socket.unpack_sockaddr_in(server.get_sockname)[0]
      told = lambda { |name, connection, data = nil|
        connection.send_datagram("packet", "127.0.0.1", port) if name == :post_init
        received = [data, Socket.unpack_sockaddr_in(connection.get_peername)[0] == port] and EM.stop if name == :receive_data
      }
      EM.open_datagram_socket("127.0.0.1", 0, Told, told)
    end
    assert_equal ["packet!", true], received
  end

  def test_packets_wait_for_a_callback_that_waits
    received = []
    run_reactor do
      waits = lambda { |name, _, data = nil|
        next unless name == :receive_data

        sleep(0.02) if data == "one"
        received << data
        EM.add_timer(0.02) { EM.stop } if received.size == 2
      }
      server = EM.open_datagram_socket("127.0.0.1", 0, Told, waits)
      port = Socket.unpack_sockaddr_in(server.get_sockname)[0]
      client = EM.open_datagram_socket("127.0.0.1", 0)
      client.send_datagram("one", "127.0.0.1", port)
      EM.add_timer(0.005) { client.send_datagram("two", "127.0.0.1", port) }
    end
    assert_equal %w[one two], received
  end

  def test_packets_that_came_together_outlast_an_exception_and_a_pause
    received = []
    EM.error_handler { |error| received << error.message }
    run_reactor do
      told = lambda { |name, connection, data = nil|
        next unless name == :receive_data
        raise "raised" if data == "one"

        received << data
        connection.pause && EM.next_tick { connection.resume } if data == "two"
        EM.stop if data == "three"
      }
      port = Socket.unpack_sockaddr_in(EM.open_datagram_socket("127.0.0.1", 0, Told, told).get_sockname)[0]
      client = EM.open_datagram_socket("127.0.0.1", 0)
      %w[one two three].each { |data| client.send_datagram(data, "127.0.0.1", port) }
    end
    assert_equal %w[raised two three], received
  end

  # Reads by itself.
  class Reader < EM::Connection
    def initialize(io, told)
      super
      @io = io
      @told = told
      self.notify_readable = true
    end

    def notify_readable = @told.call(@io.read_nonblock(10), self)
  end

  def test_a_watched_io_is_read_by_the_program_and_stays_open
    reader, writer = IO.pipe
    read = []
    run_reactor do
      EM.watch(reader, Reader, reader, lambda { |data, connection|
        read << data
        next writer.write("two") if data == "one"

        connection.detach
        EM.add_timer(0.02) { EM.stop }
      })
      writer.write("one")
    end
    assert_equal %w[one two], read
    refute reader.closed?
  ensure
    [reader, writer].each(&:close)
  end

  def test_room_to_write_is_told_until_it_is_not_wanted
    reader, writer = IO.pipe
    count = 0
    handler = Class.new(EM::Connection) do
      define_method(:notify_writable) do
        self.notify_writable = false if (count += 1) == 3
        EM.add_timer(0.02) { EM.stop } if count == 3
      end
    end
    run_reactor { EM.watch(writer, handler) { |connection| connection.notify_writable = true } }
    assert_equal 3, count
  ensure
    [reader, writer].each(&:close)
  end

  def test_attached_pipes_carry_more_than_they_hold
    reader, writer = IO.pipe
    received = +""
    run_reactor do
      EM.attach(reader, Told, ->(name, _, data = nil) { name == :receive_data ? received << data : (EM.stop if name == :unbind) })
      EM.attach(writer) { |connection| connection.send_data("x" * 300_000) && connection.close_connection_after_writing }
    end
    assert_equal 300_000, received.bytesize
  end

  def test_a_keyboard_closed_after_a_line_leaves_the_next_line_in_standard_input
    reader, writer = IO.pipe
    writer.write("one\ntwo\n")
    standard = $stdin.dup
    $stdin.reopen(reader)
    lines = []
    ends = []
    handler = Module.new do
      include EM::Protocols::LineText2
      define_method(:receive_line) { |line| lines << line and close_connection }
      define_method(:unbind) { (ends << lines.dup).size == 2 ? EM.stop : EM.open_keyboard(handler) }
    end
    run_reactor { EM.open_keyboard(handler) }
    assert_equal [%w[one], %w[one two]], ends
  ensure
    $stdin.reopen(standard)
    [reader, writer, standard].each(&:close)
  end

  def test_a_child_answers_and_its_status_is_known_at_unbind
    ending = nil
    run_reactor do
      EM.system("sh", "-c", "read word; echo $word back; exit 3", ->(child) { child.send_data("come\n") },
                ->(out, status) { ending = [out, status.exitstatus] and EM.stop })
    end
    assert_equal ["come back\n", 3], ending
  end

  def test_a_program_that_is_not_there_ends_like_one_that_fails
    status = nil
    run_reactor { EM.system("no-such-program-here") { |_, ended| status = ended and EM.stop } }
    assert_equal 255, status.exitstatus
  end

  def test_a_child_that_goes_on_is_ended_with_its_connection
    pid = nil
    run_reactor do
      EM.popen("sleep 100", Told, ->(name, connection, *) { pid = connection.get_pid and EM.stop if name == :unbind }, &:close_connection)
    end
    assert_raises(Errno::ESRCH) { Process.kill(0, pid) }
  end

  def test_questions_that_a_connection_has_no_answer_to
    questions = %i[get_pid get_status notify_writable? get_cipher_bits get_cipher_name get_cipher_protocol get_sni_hostname get_peer_cert
                   get_proxied_bytes]
    run_reactor do
      others = [EM.connect("127.0.0.1", serve(Told, ->(*) {})), EM.open_datagram_socket("127.0.0.1", 0), EM.attach(UNIXSocket.pair.first),
                EM.watch(IO.pipe.first, EM::Connection)]
      assert_equal [nil, 0], others.flat_map { |connection| questions.map { |question| connection.public_send(question) || nil } }.uniq
      assert_equal [true, nil, nil], [others.last.error?, others.last.get_peername, others.last.get_sockname] # no socket
      EM.stop
    end
  end

  def test_deferred_work_runs_in_threads_and_its_errors_reach_run
    result = nil
    run_reactor { EM.defer(-> { Thread.current }, ->(thread) { result = thread and EM.stop }) }
    refute_same Thread.current, result
    failed = nil
    run_reactor { EM.defer(-> { raise "deferred" }, nil, ->(error) { failed = error.message and EM.stop }) }
    assert_equal "deferred", failed
    assert_equal "alone", assert_raises(RuntimeError) { run_reactor { EM.defer { raise "alone" } } }.message
  end

  def test_a_proxy_passes_on_without_receive_data_and_reports_its_end
    received = +""
    calls = []
    run_reactor do
      over = -> { EM.stop if received.size == 5 && calls.size == 2 }
      target = serve(Told, ->(name, _, data = nil) { received << data and over.call if name == :receive_data })
      port = serve(Told, lambda { |name, connection, data = nil|
        connection.proxy_incoming_to(EM.connect("127.0.0.1", target), 1024) if name == :post_init
        EM.enable_proxy(connection, EM.connect("127.0.0.1", target), 0, 5) if name == :post_init
        calls << [name, data].compact and over.call if %i[proxy_completed receive_data].include?(name)
      })
      EM.connect("127.0.0.1", port) { |connection| connection.send_data("12345rest") }
    end
    assert_equal "12345", received
    assert_equal [[:proxy_completed], [:receive_data, "rest"]], calls
  end

  def test_a_large_file_is_streamed_as_the_peer_takes_it
    received = 0
    Tempfile.create("gyre-em") do |file|
      file.write("x" * 2_000_000)
      file.flush
      run_reactor do
        port = serve(Told, lambda { |name, connection, *|
          connection.stream_file_data(file.path).callback { connection.close_connection_after_writing } if name == :post_init
        })
        EM.connect("127.0.0.1", port, Told, lambda { |name, _, data = nil|
          received += data.bytesize if name == :receive_data
          EM.stop if name == :unbind
        })
      end
    end
    assert_equal 2_000_000, received
  end

  def test_what_an_io_reads_is_streamed_in_chunks
    received = +""
    run_reactor do
      port = serve(Told, lambda { |name, connection, *|
        next unless name == :post_init

        connection.enable_keepalive(5, 10, 15)
        EM::IOStreamer.new(connection, StringIO.new("streamed"), http_chunks: true).callback { connection.close_connection_after_writing }
      })
      EM.connect("127.0.0.1", port, Told, lambda { |name, _, data = nil|
        received << data if name == :receive_data
        EM.stop if name == :unbind
      })
    end
    assert_equal "8\r\nstreamed\r\n0\r\n\r\n", received
  end

  def test_a_file_watch_tells_changes_and_the_end
    calls = []
    handler = Module.new do
      define_method(:file_modified) { calls << :modified and File.unlink(path) }
      define_method(:file_deleted) { calls << :deleted }
      define_method(:unbind) { calls << :unbind and EM.stop }
    end
    file = Tempfile.create("gyre-em")
    run_reactor do
      EM.watch_file(file.path, handler)
      EM.next_tick { file.write("x") and file.close }
    end
    assert_equal %i[modified deleted unbind], calls.uniq
  end

  def test_a_file_watch_follows_its_file_to_another_name
    calls = []
    steps = nil
    handler = Module.new do
      { file_modified: :modified, file_moved: :moved, file_deleted: :deleted }.each do |name, call|
        define_method(name) { (calls << call) && EM.next_tick { steps.shift&.call } }
      end
      define_method(:unbind) { calls << :unbind and EM.stop }
    end
    Dir.mktmpdir do |folder|
      path = "#{folder}/log"
      steps = [-> { File.write("#{path}.1", "more", mode: "a") }, -> { File.write(path, "new") and File.unlink("#{path}.1") }]
      File.write(path, "")
      run_reactor do
        EM.watch_file(path, handler)
        EM.next_tick { File.chmod(0o600, path) and File.rename(path, "#{path}.1") }
      end
    end
    assert_equal %i[moved modified deleted unbind], calls
  end

  def test_a_file_watch_that_raises_goes_on_and_is_unbound_at_the_reactors_end
    calls = []
    handler = Module.new do
      define_method(:file_modified) { (calls << :modified).size == 1 ? raise("told") : EM.stop }
      define_method(:unbind) { calls << :unbind }
    end
    EM.error_handler { |error| calls << error.message }
    Tempfile.create("gyre-em") do |file|
      run_reactor do
        EM.watch_file(file.path, handler)
        EM.next_tick { File.write(file.path, "x") and File.chmod(0o600, file.path) and File.truncate(file.path, 0) }
      end
    end
    assert_equal [:modified, "told", :modified], calls.first(3)
    assert_equal :unbind, calls.last
  end

  def test_a_process_watch_reports_the_end
    calls = []
    handler = Module.new do
      define_method(:process_exited) { calls << :exited }
      define_method(:unbind) { calls << :unbind and EM.stop }
    end
    reader, writer = IO.pipe
    pid = Process.spawn("cat", in: reader)
    run_reactor do
      EM.watch_process(pid, handler)
      writer.close
    end
    assert_equal %i[exited unbind], calls
  ensure
    [reader, writer].each(&:close)
    Process.wait(pid)
  end
end
