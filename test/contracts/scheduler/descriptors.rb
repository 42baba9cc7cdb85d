# frozen_string_literal: true

# Pipes, sockets and files through Ruby's own IO, and io_wait itself.
require "fcntl"
require "socket"
require "io/wait"
require "stringio"
require "timeout"

module SchedulerContract
  # io_wait, io_read, io_write, io_pread, io_pwrite, io_select.
  module Descriptors
    def test_a_reader_and_a_writer_share_a_pipe
      received = []
      with_pipe do |reader, writer|
        with_scheduler do
          Fiber.schedule { 3.times { received << reader.gets } }
          Fiber.schedule { 3.times { |number| sleep(0.001).then { writer.puts number } } }
        end
      end
      assert_equal %W[0\n 1\n 2\n], received
    end

    def test_a_read_that_waits_does_not_stop_others
      with_pipe do |reader, writer|
        steps = []
        with_scheduler do
          Fiber.schedule { steps << reader.read(1) }
          Fiber.schedule { sleep(0.002).then { steps << :awake }.then { writer.write "x" } }
        end
        assert_equal [:awake, "x"], steps
      end
    end

    def test_a_descriptor_in_blocking_mode_does_not_stop_others
      require "io/nonblock"
      with_pipe do |reader, writer|
        reader.nonblock = false
        in_fiber do |scheduler|
          scheduler.spawn { sleep(0.001).then { writer.write "late" } }
          assert_equal "late", reader.readpartial(10)
          assert_raises(Timeout::Error) { Timeout.timeout(0.002) { reader.read(1) } }
        end
      end
    end

    def test_a_writer_waits_when_the_pipe_is_full_and_every_byte_arrives
      data = Random.bytes(400_000)
      with_pipe do |reader, writer|
        received = +""
        with_scheduler do
          Fiber.schedule { writer.write(data).then { writer.close } }
          Fiber.schedule { received << reader.readpartial(7_000) while received.bytesize < data.bytesize }
        end
        assert_equal data.hash, received.hash
      end
    end

    # IO#syswrite has no wait of its own, and raised EAGAIN.
    def test_syswrite_waits_for_a_full_pipe_in_blocking_mode_only
      require "io/nonblock"
      with_pipe do |reader, writer|
        filled = writer.write_nonblock("x" * 1_000_000)
        assert_raises(Errno::EAGAIN) { in_fiber { writer.syswrite("y") } }
        writer.nonblock = false
        events = []
        with_scheduler do |scheduler|
          skip "Ruby writes to a blocking pipe by itself" unless scheduler.respond_to?(:io_write)

          Fiber.schedule { events << :writes << writer.syswrite("y") }
          Fiber.schedule { events << reader.read(filled).bytesize }
        end
        assert_equal [:writes, filled, 1], events
        assert_equal "y", reader.readpartial(10)
      end
    end

    # Also where the kernel holds open what is waited for.
    def test_the_peer_sees_a_close_at_once_though_a_fiber_waits
      near, far = UNIXSocket.pair
      with_open(far) do
        in_fiber do |scheduler|
          error = nil
          scheduler.spawn { near.wait_readable.then { near.read_nonblock(1) } rescue error = $! }
          sleep 0.001 # by now the kernel knows of it
          near.close
          assert_nil far.read_nonblock(1, exception: false)
          eventually { scheduler.yield.then { error } }
          assert_kind_of IOError, error
        end
      end
    end

    def test_the_peer_sees_a_close_at_once_after_a_wait_that_timed_out
      near, far = UNIXSocket.pair
      with_open(far) do
        in_fiber do
          assert_nil near.wait_readable(0.001)
          near.close
          assert_nil far.read(1)
        end
      end
    end

    def test_thousands_of_fibers_wait_for_one_descriptor_each
      count = [10_000, Process.getrlimit(:NOFILE).first - 500].min
      skip "too few descriptors are allowed here" if count < 2_000
      with_pipe do |reader, writer|
        twins = Array.new(count) { IO.for_fd(reader.fcntl(Fcntl::F_DUPFD), autoclose: true) }
        with_open(*twins) do
          ready = 0
          in_fiber do |scheduler|
            twins.each { |io| scheduler.spawn { ready += 1 if scheduler.io_wait(io, IO::READABLE, nil) == IO::READABLE } }
            writer.write("x")
          end
          assert_equal count, ready
        end
      end
    end

    def test_a_read_at_the_end_of_a_pipe_returns_nothing
      with_pipe do |reader, writer|
        in_fiber do |scheduler|
          scheduler.spawn { sleep(0.001).then { writer.close } }
          assert_equal "", reader.read
          assert_nil reader.read(1)
          assert_nil reader.gets
          assert_raises(EOFError) { reader.readpartial(1) }
          assert_raises(EOFError) { reader.read_nonblock(1) }
        end
      end
    end

    def test_every_way_of_reading_gets_the_same_bytes
      ways = [
        ->(io) { io.read }, ->(io) { io.each_line.to_a.join }, ->(io) { io.each_byte.to_a.pack("C*") },
        ->(io) { "".b.tap { |all| all << io.readpartial(3) until io.eof? } },
        ->(io) { "".b.tap { |all| all << io.getc until io.eof? } },
        ->(io) { IO.copy_stream(io, StringIO.new("".b).tap { |target| @target = target }).then { @target.string } }
      ]
      ways.each do |way|
        with_pipe do |reader, writer|
          in_fiber do |scheduler|
            scheduler.spawn { ["one\n", "tw", "o\nthree"].each { |part| sleep(0.0005).then { writer.write part } }.then { writer.close } }
            assert_equal "one\ntwo\nthr", way.call(reader).to_s[0, 11]
          end
        end
      end
    end

    def test_read_nonblock_and_write_nonblock_never_wait
      with_open(*UNIXSocket.pair) do |one, other|
        in_fiber do
          assert_equal :wait_readable, one.read_nonblock(1, exception: false)
          assert_raises(IO::WaitReadable) { one.read_nonblock(1) }
          other.write "x"
          assert_equal "x", one.read_nonblock(5)
          nil until one.write_nonblock("y" * 65_536, exception: false) == :wait_writable
        end
      end
    end

    def test_a_server_accepts_many_clients_at_once
      with_open(TCPServer.new("127.0.0.1", 0)) do |server|
        port = server.addr[1]
        answers = []
        with_scheduler do |scheduler|
          scheduler.spawn do
            10.times { server.accept.then { |client| scheduler.spawn { answer_lines(client) } } }
          end
          10.times do |number|
            scheduler.spawn do
              TCPSocket.open("127.0.0.1", port) do |client|
                client.puts "hello #{number}"
                sleep 0.001
                client.puts ""
                answers << client.read
              end
            end
          end
        end
        assert_equal (0...10).map { |number| "hello #{number}\n" }.sort, answers.sort
      end
    end

    def test_socket_pairs_play_ping_pong
      with_open(*UNIXSocket.pair) do |one, other|
        count = 0
        with_scheduler do
          Fiber.schedule { 200.times { one.write("ping").then { count += 1 if one.readpartial(10) == "pong" } } }
          Fiber.schedule { 200.times { other.write("pong") if other.readpartial(10) == "ping" } }
        end
        assert_equal 200, count
      end
    end

    def test_datagrams_are_waited_for
      with_open(UDPSocket.new, UDPSocket.new) do |one, other|
        one.bind("127.0.0.1", 0)
        in_fiber do |scheduler|
          scheduler.spawn { sleep(0.001).then { other.send("datagram", 0, "127.0.0.1", one.addr[1]) } }
          assert_equal "datagram", one.recvfrom(100).first
        end
      end
    end

    def test_a_connection_that_is_refused_raises_in_its_fiber
      port = with_open(TCPServer.new("127.0.0.1", 0)) { |server| server.addr[1] }
      in_fiber { assert_raises(Errno::ECONNREFUSED) { TCPSocket.new("127.0.0.1", port) } }
    end

    def test_files_are_read_and_written
      require "tempfile"
      Tempfile.create do |file|
        in_fiber do
          file.write "some text"
          file.flush
          file.rewind
          assert_equal "some text", file.read
          assert_equal "text", file.pread(4, 5)
          file.pwrite("TEXT", 5)
          assert_equal "some TEXT", File.read(file.path)
        end
      end
    end

    def test_io_wait_returns_what_is_ready
      with_open(*UNIXSocket.pair) do |one, other|
        in_fiber do |scheduler|
          both = IO::READABLE | IO::WRITABLE
          assert_equal IO::WRITABLE, scheduler.io_wait(one, both, HANG_S)
          other.write "x"
          assert_equal both, scheduler.io_wait(one, both, HANG_S)
          assert_equal IO::READABLE, scheduler.io_wait(one, IO::READABLE, HANG_S)
        end
      end
    end

    def test_io_wait_has_no_other_events_than_rubys
      with_pipe do |reader, writer|
        in_fiber do
          assert_nil reader.wait(256, 0.001)
          assert_nil reader.wait(8, 0.001)
          writer.write "x"
          assert_includes [IO::READABLE, reader], reader.wait(IO::READABLE | 16 | 32 | 128, HANG_S) # Ruby 3.1 gives the IO
          assert_includes [IO::WRITABLE, writer], writer.wait(IO::WRITABLE | 256, HANG_S)
        end
      end
    end

    def test_io_wait_gives_up_when_the_time_is_over
      with_pipe do |reader, _|
        in_fiber do |scheduler|
          took = duration_s { refute scheduler.io_wait(reader, IO::READABLE, 0.003) }
          assert_operator took, :>=, 0.003
          assert_nil reader.wait_readable(0.001)
          assert_nil reader.wait(0.001)
        end
      end
    end

    def test_io_wait_without_time_only_looks
      with_pipe do |reader, writer|
        in_fiber do |scheduler|
          refute scheduler.io_wait(reader, IO::READABLE, 0)
          writer.write "x"
          assert_equal IO::READABLE, scheduler.io_wait(reader, IO::READABLE, 0)
        end
      end
    end

    def test_looking_again_and_again_without_time_lets_others_run
      looks = [->(io) { io.wait_readable(0) }]
      looks << ->(io) { IO.select([io], nil, nil, 0) } if RUBY_VERSION >= "3.2"
      looks.each do |look|
        with_pipe do |reader, writer|
          in_fiber do |scheduler|
            scheduler.spawn { sleep(0).then { writer.write "x" } }
            nil until look.call(reader)
          end
        end
      end
    end

    # A registration that is trusted is verified after 5 ms, not before each sleep.
    def test_round_trips_of_moments_do_not_register_again_and_again
      skip "only epoll shows what is registered" unless backend == "epoll" && Dir["/proc/self/fdinfo/*"].any?
      near, far = UNIXSocket.pair
      echo = Thread.new { nil while far.write(far.readpartial(1)) }
      echo.report_on_exception = false
      in_fiber do
        begin_s = Process.clock_gettime(Process::CLOCK_MONOTONIC)
        before = nil
        500.times { |number| near.write("x").then { near.readpartial(1) }.then { before = registrations(near) if number == 0 } }
        elapsed_s = Process.clock_gettime(Process::CLOCK_MONOTONIC) - begin_s
        assert_operator registrations(near) - before, :<=, (elapsed_s / 0.005 * 2) + 100 # 499 where each sleep makes one
      end
    ensure
      [near, far].each { |io| io&.close }
      echo&.join rescue nil # EOFError
    end

    def test_waiting_on_a_regular_file_returns_at_once
      File.open(__FILE__) do |file|
        in_fiber { |scheduler| assert_equal IO::READABLE, scheduler.io_wait(file, IO::READABLE, HANG_S) }
      end
    end

    def test_the_timeout_of_an_io_ends_a_read
      since_ruby "3.2"
      with_pipe do |reader, _|
        reader.timeout = 0.002
        in_fiber { assert_raises(IO::TimeoutError) { reader.read(1) } }
      end
    end

    def test_one_fiber_reads_and_one_writes_the_same_socket
      with_open(*UNIXSocket.pair) do |one, other|
        received = nil
        sent = nil
        with_scheduler do
          Fiber.schedule { received = one.read(5) }
          Fiber.schedule { sent = one.write("z" * 500_000) }
          Fiber.schedule { other.read(500_000).then { other.write "hello" } }
        end
        assert_equal ["hello", 500_000], [received, sent]
      end
    end

    def test_two_fibers_wait_for_the_same_descriptor
      with_pipe do |reader, writer|
        woken = []
        with_scheduler do |scheduler|
          2.times { |number| scheduler.spawn { scheduler.io_wait(reader, IO::READABLE, HANG_S).then { |ready| woken << [number, ready] } } }
          writer.write "x"
        end
        assert_equal [[0, IO::READABLE], [1, IO::READABLE]], woken.sort
      end
    end

    def test_two_io_objects_for_one_descriptor_are_waited_for_by_number
      with_pipe do |reader, writer|
        twin = IO.for_fd(reader.fileno, autoclose: false)
        woken = []
        with_scheduler do |scheduler|
          [reader, twin].each { |io| scheduler.spawn { woken << scheduler.io_wait(io, IO::READABLE, HANG_S) } }
          scheduler.spawn { refute scheduler.io_wait(twin, IO::PRIORITY, 0.002) }
          writer.write "x"
        end
        assert_equal [IO::READABLE] * 2, woken
      end
    end

    def test_io_objects_that_vanish_leave_no_trace
      with_pipe do |reader, writer|
        writer.write "x"
        with_scheduler do |scheduler|
          100.times { scheduler.spawn { scheduler.io_wait(IO.for_fd(reader.fileno, autoclose: false), IO::READABLE, HANG_S) } }
          scheduler.run
          GC.start
          scheduler.spawn { assert_equal IO::READABLE, scheduler.io_wait(reader, IO::READABLE, HANG_S) }
        end
      end
    end

    def test_a_number_that_is_used_again_is_a_new_descriptor
      with_scheduler do |scheduler|
        numbers = Array.new(20) do
          with_pipe do |reader, writer|
            result = nil
            scheduler.spawn { result = scheduler.io_wait(reader, IO::READABLE, HANG_S) }
            writer.write "x"
            scheduler.run
            assert_equal IO::READABLE, result
            assert_equal(false, scheduler.spawn { result = scheduler.io_wait(writer, IO::READABLE, 0.0001) }.then { scheduler.run }.then { result })
            reader.fileno
          end
        end
        assert_operator numbers.uniq.size, :<, 20
      end
    end

    def test_a_descriptor_that_is_closed_while_a_fiber_waits_raises_there_and_does_not_stop_others
      with_pipe do |reader, _|
        with_pipe do |other_reader, other_writer|
          errors = []
          in_fiber do |scheduler|
            scheduler.spawn { reader.read(1) rescue errors << $!.class }
            scheduler.spawn { sleep(0.003).then { other_writer.write "y" } }
            sleep 0.001
            reader.close
            assert_equal "y", other_reader.read(1)
            sleep 0.001 while errors.empty?
          end
          assert_includes [IOError, Errno::EBADF], errors.first
        end
      end
    end

    def test_a_server_that_is_closed_while_a_fiber_accepts_raises_there
      errors = []
      in_fiber do |scheduler|
        server = TCPServer.new("127.0.0.1", 0)
        scheduler.spawn { server.accept rescue errors << $!.class }
        sleep 0.001
        server.close
        sleep 0.001 while errors.empty?
      end
      assert_includes [IOError, Errno::EBADF], errors.first
    end

    def test_a_number_that_is_closed_and_given_out_while_a_fiber_waits_does_not_confuse_the_new_owner
      errors = []
      in_fiber do |scheduler|
        old, old_writer = IO.pipe
        scheduler.spawn { old.read(1) rescue errors << $!.class }
        old.close
        old_writer.close
        with_pipe do |reader, writer|
          scheduler.spawn { sleep(0.001).then { writer.write "new" } }
          assert_equal "new", reader.read(3)
        end
        sleep 0.001 while errors.empty?
      end
      assert_equal 1, errors.size
    end

    def test_io_select_waits_without_stopping_others
      since_ruby "3.2"
      with_open(*UNIXSocket.pair) do |one, other|
        in_fiber do |scheduler|
          assert_equal [[], [one], []], IO.select([one], [one])
          assert_equal [[], [one], []], IO.select([one], [one], nil, HANG_S)
          assert_nil IO.select([one], nil, nil, 0.001)
          assert_nil IO.select([one], [], [], 0)
          scheduler.spawn { sleep(0.001).then { other.write "x" } }
          assert_equal [[one], [], []], IO.select([one], [], [one])
        end
      end
    end

    def test_io_select_counts_what_a_buffer_holds_already
      since_ruby "3.2"
      with_pipe do |reader, writer|
        in_fiber do
          writer.write "one\ntwo\n"
          reader.gets
          assert_equal [[reader], [], []], IO.select([reader], nil, nil, HANG_S)
        end
      end
    end

    def test_io_select_ends_in_time_though_others_read_what_woke_it
      since_ruby "3.2"
      with_pipe do |reader, writer|
        in_fiber do |scheduler|
          read = -> { scheduler.io_wait(reader, IO::READABLE, 0.1).then { reader.read_nonblock(1, exception: false) } }
          scheduler.spawn(&read)
          found = :none
          scheduler.spawn { found = IO.select([reader], nil, nil, 0.001) }
          scheduler.spawn(&read)
          scheduler.spawn { writer.write("x").then { sleep 0 } }
          begin_s = now
          nil until now - begin_s > 0.002 # the bytes are there and the time is over when the loop looks
          eventually { scheduler.yield.then { found != :none } }
          assert_nil found
        end
      end
    end

    # As without a scheduler: an end is nothing exceptional.
    def test_io_select_for_exceptions_sleeps_when_the_peer_has_closed
      since_ruby "3.2"
      [UNIXSocket.pair, IO.pipe].each do |near, far|
        with_open(near) do
          in_fiber do |scheduler|
            far.close
            turns = scheduler.stats[:turns]
            assert_nil IO.select(nil, nil, [near], 0.02)
            assert_operator scheduler.stats[:turns] - turns, :<, 20
          end
        end
      end
    end

    def test_io_select_finds_out_that_another_fiber_has_closed
      since_ruby "3.2"
      [0, 2].each do |place| # readable, exceptional
        near, far = UNIXSocket.pair
        with_open(near, far) do
          in_fiber do |scheduler|
            error = nil
            far.close if place == 2
            scheduler.spawn { IO.select(*Array.new(place), [near]) rescue error = $! }
            sleep 0.001
            near.close
            eventually { error }
            assert_includes [IOError, Errno::EBADF], error.class
          end
        end
      end
    end

    def test_hundreds_of_descriptors_are_waited_for_at_once
      pipes = Array.new(200) { IO.pipe }
      received = []
      with_scheduler do
        pipes.each { |reader, _| Fiber.schedule { received << reader.read(1) } }
        Fiber.schedule { pipes.shuffle.each { |_, writer| writer.write "1" } }
      end
      assert_equal 200, received.size
    ensure
      pipes&.flatten&.each(&:close)
    end

    private

    def answer_lines(client)
      lines = +""
      while (line = client.gets) && line != "\n"
        lines << line
      end
      client.write lines
    ensure
      client.close
    end
  end
end
