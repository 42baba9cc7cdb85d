# frozen_string_literal: true

# Gyre::Transport, each case plain and over TLS.

require "test_helper"
require "fcntl"
require "support/transports"

module TransportCases
  include GyreTest::Transports

  # --- without waiting ---

  def test_available_bytes_are_read_without_waiting
    client, server = transport_pair
    assert_equal :wait_readable, server.read_available
    client.queue("hello")
    assert_equal true, client.flush_available
    assert_equal "hello", server.read_available
    assert_equal :wait_readable, server.read_available
    assert_equal true, client.finish_available
    assert_nil server.read_available
    assert_nil server.read_available
  end

  def test_a_limit_leaves_the_rest_which_is_pending
    client, server = transport_pair
    client.write("hello world")
    assert_equal "hello", server.read_available(5)
    assert_equal secure?, server.pending?
    assert_equal " world", server.read_available(100)
    refute server.pending?
  end

  def test_a_buffer_of_the_caller_is_filled_and_used_again
    client, server = transport_pair
    buffer = String.new(capacity: 65_536)
    client.write("one")
    assert_same buffer, server.read_available(65_536, buffer)
    assert_equal ["one", Encoding::BINARY], [buffer, buffer.encoding]
    client.write("three")
    assert_same buffer, server.read_available(65_536, buffer)
    assert_equal "three", buffer
    assert_equal :wait_readable, server.read_available(65_536, buffer)
  end

  def test_bytes_beyond_the_sockets_room_stay_queued_in_order
    client, server = transport_pair
    bytes = Random.new(1).bytes(3_000_000)
    assert_operator client.queue(bytes), :>=, bytes.bytesize
    assert_equal :wait_writable, client.flush_available
    assert_operator client.unsent_bytes, :>, 0
    sender = Thread.new do
      while (wanted = client.finish_available) != true
        wait_available(client, wanted)
      end
    end
    assert_equal bytes, read_all_available(server, 65_536, String.new)
    sender.join
    assert_equal 0, client.unsent_bytes
  end

  def test_wants_tells_a_loop_which_events_to_watch
    client, server = transport_pair
    assert_equal({ read: true, write: false }, client.wants)
    assert_nil client.wants(read: false)
    client.queue("x" * 3_000_000)
    client.flush_available
    assert_equal({ read: true, write: true }, client.wants)
    assert_equal({ read: false, write: true }, client.wants(read: false))
    server.close
    assert_raises(SystemCallError) { client.flush_available until client.unsent_bytes.zero? }
  end

  def test_unread_bytes_can_be_taken
    client, server = transport_pair
    client.write("a line\nand the rest")
    assert_equal "a line\n", server.gets
    assert_equal "and the rest", server.unread
  end

  def test_bytes_queued_before_tls_leave_in_plain_text
    return unless secure?

    client, server = transport_pair(contexts: nil)
    client.queue("STARTTLS\n")
    assert_equal({ read: true, write: true }, client.wants)
    client.begin_tls(GyreTest::Transports.contexts[0], name: "localhost")
    assert_equal({ read: false, write: true }, client.wants)
    client.handshake_available
    assert_equal "STARTTLS\n", server.gets
    server.queue("220 ready\n")
    server.begin_tls(GyreTest::Transports.contexts[1])
    server.queue("over TLS\n")
    server.handshake_available
    assert_equal "220 ready\n", client.to_io.recv(10)
    [client, server].each(&:handshake_available) until client.handshake_available == true && server.handshake_available == true
    assert_equal true, server.flush_available
    assert_equal "over TLS\n", client.gets
  end

  def test_an_unreadable_file_leaves_the_connection_unchanged
    client, server = transport_pair
    reader, writer = IO.pipe
    { Errno::EISDIR => File.open(Dir.tmpdir), Errno::ESPIPE => reader, Errno::EBADF => File.open(File::NULL, "w") }.each do |error, file|
      assert_raises(error) { client.write_file(file, 0, 10) }
      client.write("on\n")
      assert_equal "on\n", server.gets
    ensure
      file.close
    end
    assert_raises(ArgumentError) { client.write_file(writer, 0, -1) }
  ensure
    writer&.close
  end

  def test_a_buffer_may_call_the_transport_that_it_is_filled_by
    client, server = transport_pair
    client.write("a" * 10_000)
    assert_equal "a", server.read(1)
    taken = nil
    buffer = Object.new
    buffer.define_singleton_method(:to_str) { (taken = server.read(9_999)) && +"" }
    assert_equal :wait_readable, server.read_available(5_000, buffer)
    assert_equal 9_999, taken.bytesize
  end

  def test_a_file_is_sent
    client, server = transport_pair
    Tempfile.create("gyre") do |file|
      bytes = Random.new(2).bytes(2_000_000)
      file.write(bytes)
      file.flush
      reader = Thread.new { server.read }
      assert_equal 1_999_990, client.write_file(file, 10, 3_000_000)
      client.close_write
      assert_equal bytes.byteslice(10..), reader.value
    end
  end

  def test_many_pieces_are_one_write
    client, server = transport_pair
    pieces = Array.new(100) { |index| "#{index}," }
    assert_equal pieces.sum(&:bytesize), client.write(*pieces)
    assert_equal pieces.join, server.read_partial
  end

  def test_calls_that_never_wait_let_others_run
    { 150_000 => %i[gets], 150_001 => [:read_partial, 1], 500_000 => [:write, ""] }.each do |times, call|
      Gyre.run do |task|
        client, server = transport_pair
        client.write("\n" * 100_000)
        server.gets # makes room
        client.write("\n" * 60_000)
        ran = false
        task.async do
          task.yield
          ran = true
        end
        times.times { ran || server.public_send(*call) }
        assert ran, call.first
      end
    end
  end
end

# What waits: in threads without a scheduler, and in tasks.
module TransportWaitCases
  include GyreTest::Transports

  # --- reading ---

  def test_lines_are_read_as_they_come
    with_pair do |client, server|
      reader = job { server.each_line(chomp: true).to_a }
      client.write("one\ntw")
      client.write("o\n\nthree")
      client.close_write
      assert_equal ["one", "two", "", "three"], value(reader)
      assert_nil server.gets
    end
  end

  def test_a_separator_of_several_bytes_may_come_in_pieces
    with_pair do |client, server|
      reader = job { [server.read_until("\r\n"), server.read_until("\r\n", chomp: false), server.read_until("\r\n")] }
      parked(reader)
      "first\r\nse\rcond\r\nrest".each_char { |byte| client.write(byte) }
      client.close_write
      assert_equal ["first", "se\rcond\r\n", nil], value(reader)
      assert_equal "rest", server.read
    end
  end

  def test_a_line_without_an_end_is_refused_at_its_limit
    with_pair do |client, server|
      client.write("12345\n123456\n")
      assert_equal "12345", server.gets(limit: 5, chomp: true)
      error = assert_raises(Gyre::ProtocolError) { server.gets(limit: 5) }
      assert_match(/no end within 5 bytes from client/, error.message)
      assert_equal "123456\n", server.gets
      client.write("x" * 6)
      assert_raises(Gyre::ProtocolError) { server.gets(limit: 5) }
    end
  end

  def test_read_returns_the_requested_number_of_bytes
    with_pair do |client, server|
      reader = job { [server.read(3), server.read_exactly(4), server.read(0), server.read(10), server.read(10), server.read] }
      client.write("abcde")
      parked(reader)
      client.write("fghi")
      client.close_write
      assert_equal ["abc", "defg", "", "hi", nil, ""], value(reader)
      error = assert_raises(EOFError) { server.read_exactly(2) }
      assert_match(/client ended after 0 of 2 bytes/, error.message)
    end
  end

  def test_a_partial_read_returns_available_bytes
    with_pair do |client, server|
      reader = job { server.read_partial }
      parked(reader)
      client << "hello"
      assert_equal "hello", value(reader)
      client << "world"
      assert_equal "wo", server.read_partial(2)
      assert_equal "rld", server.read_partial(100)
      assert_raises(ArgumentError) { server.read_partial(0) }
    end
  end

  # --- what a read that came short has shown of the socket ---

  # A reader that has waited, so that the loop reports what comes, and has read "a".
  def with_emptied(sockets = UNIXSocket.pair)
    with_pair(sockets) do |client, server|
      reader = job { server.read_partial }
      parked(reader)
      client.write("a")
      assert_equal "a", value(reader)
      yield client, server
    end
  end

  def test_an_emptied_socket_is_not_asked_before_the_loop_reports_it
    skip "a thread without a scheduler asks the socket" unless fibers?
    with_emptied do |client, server|
      order = []
      other = job { sleep(0).then { order << :other } }
      client.write("b")
      order << server.read_partial # would have it at once
      value(other)
      assert_equal [:other, "b"], order
    end
  end

  def test_a_socket_that_was_emptied_still_ends
    with_emptied do |client, server|
      client.write("b")
      client.close_write
      assert_equal ["b", nil, nil], Array.new(3) { server.read_partial }
    end
    with_emptied do |client, server|
      reader = job { server.read }
      parked(reader)
      client.write("b")
      parked(reader)
      client.close_write
      assert_equal "b", value(reader)
    end
  end

  def test_an_urgent_byte_that_ends_a_read_early_hides_nothing
    skip "over TLS nothing is urgent" if secure?
    with_emptied(tcp_sockets) do |client, server|
      client.write("b")
      client.to_io.send("!", Socket::MSG_OOB)
      client.write("c")
      assert_equal "bc", server.read_exactly(2)
    end
  end

  def test_bytes_taken_by_another_reader_of_the_socket_are_not_waited_for
    skip "its records are the transport's" if secure?
    with_emptied do |client, server|
      copy = server.to_io.dup
      client.write("b")
      assert_equal "b", copy.recv(10)
      reader = job { server.read_partial }
      parked(reader)
      client.write("c")
      assert_equal "c", value(reader)
      client.write("d")
      assert_equal "d", server.to_io.readpartial(10)
      reader = job { server.read_partial }
      parked(reader)
      client.write("e")
      assert_equal "e", value(reader)
    ensure
      copy&.close
    end
  end

  def test_large_messages_go_both_ways_at_once
    bytes = Random.new(3).bytes(2_000_000)
    with_pair do |client, server|
      jobs = [client, server].flat_map do |transport|
        [job { transport.write(bytes) && transport.close_write }, job { transport.read }]
      end
      assert_equal [bytes, bytes], jobs.map { |job| value(job) }.compact
    end
  end

  # --- halves ---

  def test_each_side_ends_by_itself
    with_pair do |client, server|
      client.write("question")
      client.close_write
      assert_equal "question", server.read
      server.write("answer")
      server.close_write
      assert_equal "answer", client.read
      assert_raises(Errno::EPIPE) { client.write("more") }
      assert_nil client.close_write
    end
  end

  def test_a_server_may_end_first
    with_pair do |client, server|
      server.close_write
      assert_nil client.gets
      client.write("still heard\n")
      assert_equal "still heard\n", server.gets
    end
  end

  # --- several ---

  def test_several_readers_each_get_whole_lines
    with_pair do |client, server|
      readers = Array.new(3) { job { Array.new(4) { server.gets(chomp: true) } } }
      parked(*readers)
      client.write(Array.new(12) { |index| "line #{index}\n" }.join) # in one piece: one reader receives it
      lines = readers.map { |reader| value(reader) }
      assert_equal Array.new(12) { |index| "line #{index}" }.sort, lines.flatten.sort
      assert lines.all? { |some| some == some.sort_by { |line| line[/\d+/].to_i } }
    end
  end

  def test_a_later_reader_takes_nothing_from_a_waiting_one
    with_pair do |client, server|
      first = job { server.read(10) }
      parked(first)
      client.write("12345")
      eventually { server.unread == "12345" }
      second = job { server.read_partial }
      parked(second)
      client.write("67890rest")
      assert_equal %w[1234567890 rest], [value(first), value(second)]
    end
  end

  def test_several_writers_do_not_mix_their_bytes
    with_pair(tiny_sockets) do |client, server|
      writers = %w[a b c].map { |letter| job { 3.times { client.write(letter * 50_000, "\n") } } }
      lines = Array.new(9) { server.gets(chomp: true) }
      writers.each { |writer| value(writer) }
      assert_equal(%w[a b c].flat_map { |letter| [letter * 50_000] * 3 }, lines.sort)
    end
  end

  def test_a_file_is_one_message_whatever_others_write_meanwhile
    with_file("f" * 600_000) do |file|
      with_pair(tiny_sockets) do |client, server|
        client.queue("a" * 300_000)
        jobs = [job { client.write_file(file, 0, 600_000) }]
        parked(*jobs)
        assert_equal "a" * 300_000, server.read(300_000)
        [-> { client.write("b" * 300_000) }, -> { client << "c" }].each { |call| parked(*(jobs << job { call.call })) }
        received = server.read(900_001)
        jobs.each { |each| value(each) }
        assert_equal({ "f" => 600_000, "b" => 300_000, "c" => 1 }, received.chars.tally)
        assert_equal 599_999, received.rindex("f") - received.index("f")
      end
    end
  end

  def test_nothing_is_sent_after_a_file_that_was_cut
    with_file("f" * 600_000) do |file|
      with_pair(tiny_sockets) do |client, server|
        sending = job { client.write_file(file, 0, 600_000) }
        parked(sending)
        client.queue("behind")
        cancel(sending)
        assert_match(/send to server/, assert_raises(Errno::ECONNABORTED) { client.write("more") }.message)
        reader = job { server.read }
        client.close
        assert_empty bytes_of(reader).delete("f")
      end
    end
  end

  def test_a_reader_does_not_hold_up_a_writer
    with_pair do |client, server|
      reader = job { client.gets }
      parked(reader)
      client.write("ping\n")
      assert_equal "ping\n", server.gets
      server.write("pong\n")
      assert_equal "pong\n", value(reader)
    end
  end

  # --- limits of time, cancellation, close ---

  def test_a_read_has_a_limit_of_time
    with_pair do |client, server|
      server.read_timeout_s = 0.01
      error = assert_raises(Gyre::TimeoutError) { server.gets }
      assert_match(/receive from client: nothing for 0.01 s/, error.message)
      client.write("late\n")
      server.read_timeout_s = nil
      assert_equal "late\n", server.gets
    end
  end

  def test_a_write_has_a_limit_of_time
    with_pair(tiny_sockets) do |client, server|
      client.write_timeout_s = 0.01
      error = assert_raises(Gyre::TimeoutError) { client.write("x" * 1_000_000) }
      assert_match(/send to server: nothing for 0.01 s/, error.message)
      reader = job { server.read }
      client.write_timeout_s = nil
      client.write("y") # behind what was interrupted
      client.close_write
      assert_equal "#{"x" * 1_000_000}y", value(reader)
    end
  end

  def test_a_turn_has_the_same_limit_of_time
    with_pair(tiny_sockets) do |client, server|
      waiting = [job { server.gets }, job { server.write("x" * 300_000) }]
      parked(*waiting)
      server.read_timeout_s = server.write_timeout_s = 0.01
      assert_match(/receive from client: nothing for 0.01 s/, assert_raises(Gyre::TimeoutError) { server.read_partial }.message)
      assert_match(/send to client: nothing for 0.01 s/, assert_raises(Gyre::TimeoutError) { server.write("y") }.message)
      server.read_timeout_s = server.write_timeout_s = nil
      late = job { server.read_partial } # behind the first reader
      parked(late)
      client.write("line\n")
      assert_equal "line\n", value(waiting[0])
      client.write("late")
      assert_equal "late", value(late)
      assert_equal({ "x" => 300_000, "y" => 1 }, client.read(300_001).chars.tally)
      value(waiting[1])
    end
  end

  def test_a_cancelled_read_takes_nothing
    with_pair do |client, server|
      waiting = [job { server.gets }, job { server.read(100) }]
      parked(*waiting)
      client.write("first ")
      eventually { server.unread == "first " } # the first reader has it, and waits for more
      waiting.reverse_each { |reader| cancel(reader) }
      client.write("line\n")
      assert_equal "first line\n", server.gets
    end
  end

  def test_a_cancelled_write_stays_whole
    with_pair(tiny_sockets) do |client, server|
      writers = Array.new(2) { |index| job { client.write(index.to_s * 300_000) }.tap { |writer| parked(writer) } }
      writers.each { |writer| cancel(writer) }
      reader = job { server.read }
      client.write("end")
      client.close_write
      assert_equal "#{"0" * 300_000}#{"1" * 300_000}end", value(reader)
    end
  end

  def test_close_ends_every_wait
    with_pair(tiny_sockets) do |client, _|
      calls = [-> { client.gets }, -> { client.read(10) }, -> { client.write("x" * 1_000_000) }, -> { client.write("y") }]
      waiting = calls.map { |call| job { call.call }.tap { |each| parked(each) } }
      client.close
      waiting.each { |each| assert_raises(IOError) { value(each) } }
      assert_predicate client, :closed?
      assert_raises(IOError) { client.gets }
      assert_nil client.close
      assert_match(/closed/, client.inspect)
    end
  end

  def test_close_by_another_thread_ends_every_wait
    with_pair do |client, _|
      waiting = [job { client.gets }, job { client.read(10) }]
      parked(*waiting)
      Thread.new { client.close }.join
      waiting.each { |each| assert_raises(IOError) { value(each) } }
    end
  end

  # By whatever means: each of those that wait for their turn is woken by the one before it.
  def test_each_of_many_waits_ends_with_the_socket
    { "abandon" => ->(client) { client.abandon }, "close of its IO" => ->(client) { client.to_io.close } }.each do |words, close|
      with_pair(tiny_sockets) do |client, _|
        calls = [-> { client.gets }, -> { client.write("x" * 1_000_000) }]
        waiting = calls.flat_map { |call| Array.new(4) { job { call.call }.tap { |each| parked(each) } } }
        number = client.to_io.fileno
        close.call(client)
        others = UNIXSocket.pair
        others << IO.for_fd(others.first.fcntl(Fcntl::F_DUPFD, number)) # lower ones may be free
        assert_includes others.map(&:fileno), number
        waiting.each { |each| assert_raises(IOError, words) { value(each) } }
      ensure
        others&.each(&:close)
      end
    end
  end

  def test_a_time_out_after_a_wake_up_passes_it_on
    with_pair do |client, server|
      first = job { server.gets }
      parked(first)
      rest = Array.new(3) { job { server.gets }.tap { |each| parked(each) } }
      cancel(rest.shift)
      client.write("one\ntwo\nthree\n")
      assert_equal %W[one\n three\n two\n], [first, *rest].map { |each| value(each) }.sort
    end
  end

  def test_close_does_not_wait_for_a_peer_that_takes_nothing_once_a_write_was_interrupted
    with_pair(tiny_sockets) do |client, _|
      client.write_timeout_s = 0.01
      assert_raises(Gyre::TimeoutError) { client.write("x" * 1_000_000) }
      client.write_timeout_s = nil
      assert_nil client.close
    end
  end

  def test_a_reset_is_an_error_that_names_the_peer
    with_pair(tcp_sockets) do |client, server|
      reader = job { client.gets }
      parked(reader)
      server.to_io.setsockopt(Socket::Option.linger(true, 0))
      server.abandon
      error = assert_raises(Errno::ECONNRESET) { value(reader) }
      assert_match(/receive from server/, error.message)
    end
  end

  # --- other threads, forks, the collector ---

  def test_threads_and_fibers_use_one_transport
    with_pair do |client, server|
      echo = Thread.new { server.each_line { |line| server.write(line.upcase) } }
      lines = Array.new(4) { |index| job { client.write("line #{index}\n") && client.gets } }.map { |each| value(each) }
      assert_equal Array.new(4) { |index| "LINE #{index}\n" }, lines.sort
      client.close_write
      echo.join
    end
  end

  def test_a_child_leaves_its_parents_transport_alone
    with_pair do |client, server|
      child = fork do
        client.abandon
        server.abandon
        exit!(0)
      end
      Process.wait(child)
      client.write("after\n")
      assert_equal "after\n", server.gets
    end
  end

  def test_transports_survive_compaction
    with_pair do |client, server|
      reader = job { [server.gets, server.gets] }
      parked(reader)
      move_objects
      client.write("one\n")
      GC.start
      client.write("two\n")
      assert_equal %W[one\n two\n], value(reader)
    end
  end

  SENDING_DAEMON = <<~RUBY
    require "gyre/net"
    Gyre.run do |task|
      transport = Gyre::Transport.new(UNIXSocket.for_fd(Integer(ARGV[0])), "the peer")
      transport.send_soon("y" * 1_000_000)
      task.async { sleep(0.01) }.wait
      Process.daemon(true, true)
      transport.send_soon("end")
      task.async { transport.close }.wait
    end
  RUBY

  def test_a_daemon_sends_what_its_parent_has_queued
    UNIXSocket.pair do |own, other|
      pid = Process.spawn(RbConfig.ruby, "-w", "-I#{GyreTest::Helpers::LIB}", "-e", SENDING_DAEMON, other.fileno.to_s, other => other)
      other.close
      assert_predicate Process.wait2(pid).last, :success?
      received = own.read
      assert_equal [1_000_003, "end"], [received.size, received[-3..]]
    end
  end

  private

  def with_pair(sockets = UNIXSocket.pair, &block)
    concurrently { block.call(*transport_pair(sockets)) }
  end

  def with_file(bytes)
    Tempfile.create("gyre") do |file|
      file.write(bytes)
      file.flush
      yield file
    end
  end

  # What a reader got of a stream that was cut.
  def bytes_of(reader)
    value(reader).to_s
  rescue Gyre::TLS::Truncated, Errno::ECONNRESET
    ""
  end

  # What is sent fills them soon.
  def tiny_sockets
    UNIXSocket.pair.each do |socket|
      socket.setsockopt(:SOCKET, :SNDBUF, 1)
      socket.setsockopt(:SOCKET, :RCVBUF, 1)
    end
  end
end

{ "Plain" => false, "Secure" => true }.each do |kind, secure|
  Object.const_set("#{kind}TransportTest", Class.new(Minitest::Test) do
    include TransportCases

    define_method(:secure?) { secure }
  end)

  { "Threads" => false, "Fibers" => true }.each do |mode, fibers|
    Object.const_set("#{kind}Transport#{mode}Test", Class.new(Minitest::Test) do
      include TransportWaitCases

      define_method(:secure?) { secure }
      define_method(:fibers?) { fibers }
    end)
  end
end
