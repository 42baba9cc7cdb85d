# frozen_string_literal: true

# What happens outside of the thread: child processes, name resolution, work in other threads.
require "socket"
require "timeout"

module SchedulerContract
  # process_wait, address_resolve, blocking_operation_wait.
  module Outside
    # Each is a system call, and one is enough until the loop has woken up.
    def test_many_wake_ups_cost_one_write
      skip "test/loop/select_test.rb asks the pipe" if backend == "select"
      skip "only Linux tells what was written" if eventfd_counts.nil?
      with_scheduler do |scheduler|
        before = eventfd_counts
        1_000.times { scheduler.wakeup }
        assert_operator eventfd_counts - before, :<=, 1 # none, where an earlier one has not been taken yet
      end
    end

    # Returns what stands in all event descriptors of this process.
    def eventfd_counts
      files = Dir["/proc/self/fdinfo/*"].map { |path| File.read(path) rescue "" } # closed meanwhile
      files.join[/eventfd-count/] && files.join.scan(/^eventfd-count:\s+(\h+)/).sum { |(count)| count.hex }
    end

    def test_child_processes_run_at_once
      with_pipe do |gate, holder| # each child runs until the gate is opened, and that happens when all of them run
        started = ended = 0
        ways = [
          -> { assert system("cat", in: gate) },
          -> { assert_equal "done\n", `cat <&#{gate.fileno}; echo done` },
          -> { assert_predicate Process.wait2(Process.spawn("cat", in: gate)).last, :success? },
          -> { assert_predicate Process::Status.wait(Process.spawn("cat", in: gate)), :success? },
          -> { assert_equal "", IO.popen(["cat"], in: gate, &:read) }
        ]
        gate.close_on_exec = false
        with_scheduler do |scheduler|
          ways.each { |way| scheduler.spawn { (started += 1).then { way.call }.then { ended += 1 } } }
          scheduler.spawn do
            sleep 0.001 until started == ways.size
            assert_equal 0, ended
            holder.close
          end
        end
        assert_equal ways.size, ended
      end
    end

    def test_the_status_of_a_child_process_belongs_to_the_fiber_that_waited
      in_fiber do
        refute system("exit 7")
        assert_equal 7, $?.exitstatus
        pid = Process.spawn("exit 9")
        assert_equal pid, Process.wait(pid)
        assert_equal 9, $?.exitstatus
      end
    end

    def test_a_child_that_ended_before_is_waited_for
      in_fiber do
        pid = Process.spawn("exit 4")
        sleep 0.001 until File.read("/proc/#{pid}/stat").match?(/\) Z /)
        assert_equal 4, Process.wait2(pid).last.exitstatus
      end
    end

    def test_a_wait_with_wnohang_does_not_wait
      in_fiber do
        pid = Process.spawn("exec sleep 100")
        assert_nil Process.wait(pid, Process::WNOHANG)
        Process.kill(:KILL, pid)
        assert_equal pid, Process.wait(pid)
      end
    end

    def test_waiting_for_any_child_works
      in_fiber do
        pid = Process.spawn("true")
        assert_equal pid, Process.wait
      end
    end

    def test_waiting_for_nobodys_child_raises
      in_fiber { assert_raises(Errno::ECHILD) { Process.wait(Process.pid) } }
    end

    def test_a_child_whose_wait_timed_out_can_still_be_waited_for
      in_fiber do
        pid = Process.spawn("exec sleep 100")
        assert_raises(Timeout::Error) { Timeout.timeout(0.005) { Process.wait(pid) } }
        Process.kill(:KILL, pid)
        assert_equal pid, Process.wait(pid)
      end
    end

    def test_names_are_resolved
      in_fiber do |scheduler|
        addresses = Addrinfo.getaddrinfo("localhost", 80, nil, :STREAM).map(&:ip_address)
        refute_empty addresses & ["127.0.0.1", "::1"]
        assert_equal addresses.sort, scheduler.address_resolve("localhost").sort
      end
    end

    def test_name_resolution_does_not_stop_others
      steps = []
      with_slow_resolution do
        with_scheduler do
          Fiber.schedule { Addrinfo.getaddrinfo("name.test", 80).then { |found| steps << found.first.ip_address } }
          Fiber.schedule { steps << :other }
        end
      end
      assert_equal [:other, "192.0.2.1"], steps
    end

    def test_a_name_without_addresses_is_nil_and_for_ruby_a_socket_error
      with_slow_resolution(SocketError.new("no such host")) do
        in_fiber do |scheduler|
          assert_nil scheduler.address_resolve("nowhere.test")
          assert_raises(SocketError) { Addrinfo.getaddrinfo("nowhere.test", 80) }
        end
      end
    end

    def test_a_scope_plays_no_part_in_name_resolution
      in_fiber { |scheduler| assert_equal ["::1"], scheduler.address_resolve("::1%lo") }
    end

    def test_blocking_work_goes_to_another_thread_and_does_not_stop_others
      in_fiber do |scheduler|
        steps = []
        thread = nil
        gate = Thread::Queue.new
        scheduler.spawn { 3.times { scheduler.yield }.then { steps << :other }.then { gate.push(true) } }
        value = scheduler.blocking_operation_wait(-> { gate.pop.then { thread = Thread.current }.then { :value } })
        steps << value
        assert_equal %i[other value], steps
        refute_same Thread.current, thread
        assert_raises(IOError) { scheduler.blocking_operation_wait(-> { raise IOError }) }
      end
    end

    def test_blocking_work_is_finished_before_an_interrupt_gets_through
      in_fiber do |scheduler|
        done = false
        started, go_on = Array.new(2) { Thread::Queue.new }
        fiber = scheduler.spawn do
          assert_raises(IOError) { scheduler.blocking_operation_wait(-> { started.push(true).then { go_on.pop }.then { done = true } }) }
          assert done
        end
        started.pop
        scheduler.fiber_interrupt(fiber, IOError.new)
        5.times { scheduler.yield }
        go_on.push(true)
      end
    end

    def test_more_blocking_work_than_threads_gets_done
      in_fiber do |scheduler|
        done = 0
        100.times { scheduler.spawn { scheduler.blocking_operation_wait(-> { sleep 0.001 }).then { done += 1 } } }
        sleep 0.002 until done == 100
      end
    end

    private

    # Puts an address, or an error, in the place of what the system's resolver has of *.test.
    def with_slow_resolution(answer = Addrinfo.tcp("192.0.2.1", 0))
      SlowResolution.answer = answer
      yield
    ensure
      SlowResolution.answer = nil
    end
  end

  # Prepended to Addrinfo's singleton class; it only answers in threads without a scheduler, as the
  # real one.
  module SlowResolution
    class << self
      attr_accessor :answer
    end

    def getaddrinfo(host, *rest, **options)
      answer = SlowResolution.answer
      return super unless answer && host.end_with?(".test") && Fiber.scheduler.nil?

      sleep 0.01
      answer.is_a?(Exception) ? raise(answer) : [answer]
    end

    Addrinfo.singleton_class.prepend(self)
  end
end
