# frozen_string_literal: true

# Accounting by route and task (ext/gyre/fiber/sight.c): the sums are compared with a CPU clock that
# the app itself keeps.

require "test_helper"
require "http/serving"

class SightTest < Minitest::Test
  include GyreTest::HTTPServing

  CPU = Process::CLOCK_THREAD_CPUTIME_ID

  def test_a_task_is_charged_under_its_name_or_its_place
    line = __LINE__ + 4
    usage = usage_of do |task|
      named = task.async("named") { compute(0.05) }
      waiting = task.async { sleep 0.01 }
      placed = task.async { compute(0.02) }
      [named, waiting, placed].each(&:wait)
    end
    assert_near 0.05, usage["named"][:cpu_s]
    assert_near 0.02, usage["#{__FILE__}:#{line}"][:cpu_s]
    assert_operator usage["#{__FILE__}:#{line - 1}"][:cpu_s], :<, 0.01
  end

  def test_a_blocking_call_is_no_cpu
    usage = usage_of do |task|
      task.async("blocks") { Fiber.new(blocking: true) { sleep 0.1 }.resume }
    end
    assert_operator usage["blocks"][:cpu_s], :<, 0.05
    assert_operator usage["blocks"][:blocked_s], :>=, 0.09
    assert_operator usage["blocks"][:longest_s], :>=, 0.1
  end

  def test_a_thread_that_computes_meanwhile_is_charged_apart
    truth = nil
    usage = usage_of do |task|
      task.async("main") do
        thread = Thread.new { compute(0.2) }
        truth = compute(0.1)
        thread.join
      end.wait
    end
    assert_near truth, usage["main"][:cpu_s]
    assert_near 0.2, usage["(threads)"][:cpu_s]
  end

  def test_all_rows_together_are_the_thread_s_clock
    truth = nil
    usage = usage_of do |task|
      began = Process.clock_gettime(CPU)
      10.times.map { |i| task.async("task") { 200.times { sleep(0.0001 * (i % 3)) } } }.each(&:wait)
      truth = Process.clock_gettime(CPU) - began
    end
    sum = usage.except("(threads)").sum { |_, row| row[:cpu_s] }
    assert_near truth, sum
  end

  private

  # Computes for so much of the thread's CPU clock; returns the time that it took.
  def compute(seconds)
    began = Process.clock_gettime(CPU)
    loop do
      spent = Process.clock_gettime(CPU) - began
      return spent if spent >= seconds
    end
  end

  def usage_of
    usage = nil
    Gyre.run("all") do |task|
      yield task
      task.wait_all
      usage = Gyre::Loop.usage
    end
    usage
  end

  def assert_near(truth, measured) = assert_in_delta(truth, measured, (truth * 0.15) + 0.01)
end
