# frozen_string_literal: true

# watch_signal, watch_process, watch_file.
require "tmpdir"

module LoopContract
  # Signals, processes and files.
  module Helpers
    def test_a_signal_is_an_event
      loop = new_loop
      loop.watch_signal([:got, "USR1"], "USR1")
      2.times do
        Process.kill(:USR1, Process.pid)
        assert_equal [:got, "USR1"], in_thread { loop.next_event }
      end
    end

    def test_two_loops_may_watch_a_signal_and_the_programs_own_trap_comes_back
      own = 0
      before = trap("USR2") { own += 1 }
      one, other = new_loop, new_loop
      one.watch_signal(:one, :USR2)
      other.watch_signal(:other, "SIGUSR2")
      Process.kill(:USR2, Process.pid)
      assert_equal %i[one other], [in_thread { one.next_event }, in_thread { other.next_event }]
      one.unwatch(:one)
      Process.kill(:USR2, Process.pid)
      assert_equal :other, in_thread { other.next_event }
      assert_equal 0, own
      other.close
      Process.kill(:USR2, Process.pid)
      eventually { own == 1 }
    ensure
      trap("USR2", before || "DEFAULT")
    end

    def test_a_signal_that_cannot_be_trapped_is_refused
      only_on_cruby "JRuby only warns of a signal that cannot be trapped"
      loop = new_loop
      assert_raises(ArgumentError) { loop.watch_signal(:a, "KILL") }
      assert_raises(ArgumentError) { loop.watch_signal(:a, "NONSENSE") }
      refute loop.watching?(:a)
      loop.watch_timer(:b, 100, 0)
      assert_raises(RuntimeError) { loop.watch_signal(:b, "USR1") }
      assert_equal "DEFAULT", trap("USR1", "DEFAULT")
    end

    def test_the_end_of_a_child_process_is_an_event_with_its_status
      loop = new_loop
      pid = Process.spawn("exit 7")
      loop.watch_process(:child, pid)
      assert_equal :child, in_thread { loop.next_event }
      assert_equal [pid, 7], [loop.status.pid, loop.status.exitstatus]
      refute loop.watching?(:child)
      assert_raises(Errno::ECHILD) { Process.wait(pid) }
    end

    def test_a_child_process_that_goes_on_is_waited_for
      loop = new_loop
      reader, writer = new_pipe
      pid = Process.spawn("read line; exit 2", in: reader)
      loop.watch_process(:child, pid)
      loop.watch_timer(:timer, 0.1, 0)
      assert_equal :timer, in_thread { loop.next_event }
      writer.puts "go"
      assert_equal :child, in_thread { loop.next_event }
      assert_equal 2, loop.status.exitstatus
    end

    def test_a_process_that_is_not_a_child_is_over_without_a_status
      loop = new_loop
      pid = Process.spawn("true")
      Process.wait(pid)
      loop.watch_process(:child, pid)
      assert_equal :child, in_thread { loop.next_event }
      assert_nil loop.status
    end

    def test_a_child_process_may_be_left_alone
      loop = new_loop
      reader, writer = new_pipe
      pid = Process.spawn("read line; true", in: reader)
      loop.watch_process(:child, pid)
      loop.unwatch(:child)
      writer.close
      Process.wait(pid)
      loop.signal
      assert_nil loop.next_event
    end

    def test_a_child_process_may_be_left_alone_when_its_end_is_queued
      loop = new_loop
      pids = Array.new(2) { |number| Process.spawn("exit 7").tap { |pid| loop.watch_process(number, pid) } }
      eventually { pids.all? { |pid| ended?(pid) } }
      sleep 0.1 # until both are due to be looked at
      first = in_thread { loop.next_event }
      loop.unwatch(0).unwatch(1)
      loop.watch_timer(1 - first, 0, 0.05)
      assert_equal 1 - first, loop.next_event
      assert_equal 7, Process.wait2(pids[1 - first]).last.exitstatus
      assert loop.watching?(1 - first)
    end

    def test_a_file_may_be_left_alone_when_its_change_is_queued
      Dir.mktmpdir do |folder|
        loop = new_loop
        paths = %w[a b].map { |name| File.join(folder, name).tap { |path| loop.watch_file(name, path) } }
        paths.each { |path| File.write(path, "x") }
        sleep Gyre::Loop::FileWatch::INTERVAL_S + 0.05 # until both are due to be looked at
        in_thread { loop.next_event }
        loop.unwatch("a").unwatch("b")
        loop.signal
        assert_nil loop.next_event
      end
    end

    def test_a_file_that_changes_is_an_event
      Dir.mktmpdir do |folder|
        loop = new_loop
        path = File.join(folder, "file ü")
        loop.watch_file(:file, path)
        File.write(File.join(folder, "another"), "x")
        File.write(path, "one")
        assert_equal :file, in_thread { loop.next_event }
        settle(loop)
        File.write("#{path}.new", "other text")
        File.rename("#{path}.new", path)
        assert_equal :file, in_thread { loop.next_event }
        settle(loop)
        File.delete(path)
        assert_equal :file, in_thread { loop.next_event }
        loop.close
      end
    end

    def test_a_file_nearby_is_none_of_its_business
      Dir.mktmpdir do |folder|
        loop = new_loop
        path = File.join(folder, "file")
        File.write(path, "x")
        loop.watch_file(:file, path)
        File.write("#{path}.other", "x")
        loop.watch_timer(:timer, 0.6, 0)
        assert_equal :timer, in_thread { loop.next_event }
        loop.close
      end
    end

    def test_a_folder_is_watched_as_a_whole
      Dir.mktmpdir do |folder|
        loop = new_loop
        loop.watch_file(:folder, folder)
        File.write(File.join(folder, "file"), "x")
        assert_equal :folder, in_thread { loop.next_event }
        loop.close
      end
    end

    def test_a_file_in_a_folder_that_is_not_there_is_refused
      loop = new_loop
      assert_raises(Errno::ENOENT) { loop.watch_file(:file, "/nonexistent/folder/file") }
      refute loop.watching?(:file)
    end

    # Whether a child is over, though it is not reaped (proc(5), stat).
    def ended?(pid)
      !File.directory?("/proc/self") || File.read("/proc/#{pid}/stat").match?(/\) Z /)
    end

    # Takes what one change has caused: it may be several events, while they happen.
    def settle(loop)
      loop.watch_timer(:settled, 0.05, 0)
      nil until loop.next_event == :settled
    end
  end
end
