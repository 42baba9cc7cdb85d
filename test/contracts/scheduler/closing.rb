# frozen_string_literal: true

# IOs that are closed or reopened while a fiber waits for them, by this thread or another one.
require "socket"
require "io/wait"
require "fcntl"

module SchedulerContract
  # What waits for an IO ends with it.
  module Closing
    WAYS = {
      read: ->(io) { io.read(1) }, wait: ->(io) { io.wait_readable && io.read(1) }, gets: ->(io) { io.gets },
      select: ->(io) { IO.select([io]) && io.read(1) }
    }.freeze

    def test_a_close_by_another_thread_ends_a_wait
      waiting_in_each_way do |io, ended|
        Thread.new { io.close }.join
        assert_kind_of_closed ended.pop
      end
    end

    def test_closing_the_last_half_ends_a_wait
      with_open(*IO.pipe, *UNIXSocket.pair) do |reader, _, near, _|
        near.close_write
        [reader, near].each do |io|
          error = nil
          in_fiber do |scheduler|
            scheduler.spawn { io.read(1) rescue error = $! }
            io.close_read
          end
          assert_kind_of_closed error
        end
      end
    end

    def test_a_close_by_another_thread_ends_the_waits_of_several
      since_ruby "4.0"
      errors = []
      in_fiber do |scheduler|
        reader, writer = IO.pipe
        2.times { scheduler.spawn { reader.wait_readable rescue errors << $!.class } }
        Thread.new { reader.close }.join
        sleep 0.001 until errors.size == 2
      ensure
        writer&.close
      end
      assert_equal [IOError, IOError], errors
    end

    # Such as the main program behind Fiber.set_scheduler. Ruby wakes it by the scheduler.
    def test_a_blocking_fiber_closes_what_a_thread_without_a_scheduler_waits_for
      since_ruby "4.0" # on 3.4 the close waits, as no hook is called
      skip "Ruby code cannot tell an IO from a hidden blocker" if backend == "select"
      assert_program "closed\n", <<~RUBY
        require "contracts/scheduler_contract"
        scheduler = Gyre::Scheduler.new(#{backend.inspect})
        Fiber.set_scheduler(scheduler)
        Fiber.schedule { sleep 0.001 }
        scheduler.run
        reader, _writer = IO.pipe
        thread = Thread.new { reader.sysread(1) rescue IOError }
        Thread.pass until thread.status == "sleep"
        reader.close
        thread.join
        puts "closed"
      RUBY
    end

    def test_a_close_by_another_fiber_ends_a_wait_though_the_number_is_used_again
      ways.each do |way|
        in_fiber do |scheduler|
          with_pipe do |_, other_writer|
            reader, writer = IO.pipe
            error = nil
            scheduler.spawn { way.call(reader) rescue error = $! }
            sleep 0.001 # by now the kernel knows of it
            number = reader.fileno
            reader.close
            taker = IO.for_fd(other_writer.fcntl(Fcntl::F_DUPFD, number)) # dup would take a lower one that GC freed
            with_open(taker, writer) do
              assert_equal number, taker.fileno
              eventually { scheduler.yield.then { error } }
              assert_kind_of_closed error
            end
          end
        end
      end
    end

    def test_a_reopen_by_another_thread_is_waited_for_as_what_it_is_now
      waiting_in_each_way do |io, ended|
        with_pipe do |reader, writer|
          Thread.new { io.reopen(reader) }.join
          writer.puts "x"
          assert_includes ["x", "x\n", IOError], ended.pop.then { |result| result.is_a?(Exception) ? result.class : result }
        end
      end
    end

    def test_a_forked_child_closes_what_its_parent_waits_for
      skip "no fork here" unless Process.respond_to?(:fork)
      with_pipe do |reader, writer|
        in_fiber do |scheduler|
          read = nil
          scheduler.spawn { read = reader.read(1) }
          sleep 0.001 # by now the kernel knows of it
          _, status = Process.wait2(fork { reader.close.then { exit! 0 } })
          assert_predicate status, :success?
          writer.write "x"
          eventually { scheduler.yield.then { read } }
          assert_equal "x", read
        end
      end
    end

    private

    # Ruby 3.1 has no hook for IO.select.
    def ways
      (RUBY_VERSION < "3.2" ? WAYS.reject { |name, _| name == :select } : WAYS).values
    end

    # A fiber in a thread of its own waits for the IO, and the loop sleeps, when the block is
    # called.
    def waiting_in_each_way
      ways.each do |way|
        with_pipe do |reader, _|
          ended = Thread::Queue.new
          waits = Thread::Queue.new
          thread = Thread.new do
            run_scheduler do |scheduler|
              scheduler.spawn { ended << (way.call(reader) rescue $!) }
              scheduler.spawn { sleep(0.002).then { waits << true } }
            end
          end
          waits.pop
          Thread.pass until thread.stop?
          sleep 0.15 # longer than the sweep that would find it
          yield reader, ended
          thread.join(HANG_S) or flunk "it hangs"
        end
      end
    end

    def assert_kind_of_closed(error)
      assert_includes [IOError, Errno::EBADF], error.class
    end
  end
end
