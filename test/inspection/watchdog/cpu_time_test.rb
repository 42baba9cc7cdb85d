# frozen_string_literal: true

require "test_helper"
require "gyre/inspection/watchdog"

class WatchdogCPUTimeTest < Minitest::Test
  def test_it_is_the_time_of_that_thread_whoever_asks
    skip "known on Linux only" unless RUBY_PLATFORM.include?("linux")
    mine = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID)
    asked = Gyre::Watchdog::CPUTime.new(Thread.current).then { |time| Thread.new { time.seconds }.value }
    assert_includes mine..Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID), asked
  end

  def test_the_main_thread_of_a_forked_child_has_a_time_too
    skip "known on Linux only" unless RUBY_PLATFORM.include?("linux")
    reader, writer = IO.pipe
    pid = fork { writer.print(Gyre::Watchdog::CPUTime.new(Thread.current).seconds.class) && writer.flush && exit!(0) }
    Process.wait(pid)
    writer.close
    assert_equal "Float", reader.read
    reader.close
  end

  def test_it_is_unknown_of_a_thread_that_is_not_there
    gone = Struct.new(:native_thread_id).new((2**22) + 5) # beyond the largest number there is
    time = Gyre::Watchdog::CPUTime.new(gone)
    assert_equal [nil, nil], (Array.new(2) { time.seconds })
    assert_nil Gyre::Watchdog::CPUTime.new(Struct.new(:native_thread_id).new(nil)).seconds
  end
end
