# frozen_string_literal: true

# What only the io_uring backend has (ext/gyre/loop/backend_io_uring.c): set-up flags that step
# down, rings that change threads. What all backends do is in
# test/contracts/scheduler/ and backend_contract_test.rb.
require "test_helper"
require "support/engines"
require "support/plain_c"
require "gyre/scheduler"

class IoUringTest < Minitest::Test
  include GyreTest::PlainC::Assertions

  def setup
    super
    skip "io_uring is not built, or does not open here" unless GyreTest::Engines::ALL.include?("io_uring")
  end

  def test_it_keeps_its_word_in_plain_c
    assert_kept GyreTest::PlainC::PLAIN
  end

  def test_it_keeps_its_word_with_sanitizers
    assert_kept GyreTest::PlainC::SANITIZED
  end

  def test_explain_names_what_the_kernel_has
    output = ruby("-rgyre", "-e", "puts Gyre::Loop.explain", env: { "GYRE_BACKEND" => "io_uring" }).out
    assert_match(/^backend: io_uring \(native engine, C extension; (?:SUBMIT_ALL|no flags)/, output)
  end

  def test_threads_that_change_get_a_ring_that_belongs_to_none
    output = ruby("-rgyre", "-e", "puts Gyre::Loop.explain", env: { "GYRE_BACKEND" => "io_uring", "RUBY_MN_THREADS" => "1" }).out
    refute_match(/SINGLE_ISSUER/, output.lines.first)
  end

  # In a program of its own: after that no ring of the process is bound to a thread.
  def test_a_scheduler_goes_on_in_another_thread
    assert_program "[3, :read, :slept]\n", <<~RUBY
      scheduler = Gyre::Scheduler.new("io_uring")
      turns = 0
      Thread.new { scheduler.run_until { scheduler.wakeup.then { (turns += 1) > 2 } } }.join
      reader, writer = IO.pipe
      steps = []
      scheduler.spawn { scheduler.io_wait(reader, IO::READABLE, nil).then { steps << :read } }
      scheduler.spawn { scheduler.kernel_sleep(0.01).then { steps << :slept } }
      scheduler.spawn { scheduler.kernel_sleep(0.005).then { writer.write("x") } }
      scheduler.run
      p [turns, *steps.sort] # on a machine that stands still both are due at once
    RUBY
  end

  private

  def assert_kept(flags)
    output = assert_plain_c("backend_io_uring_test", flags, within_s: 120)
    assert_match(/checks, 0 failed/, output.out)
  end

  def assert_program(expected, code)
    output = ruby("-rgyre/scheduler", "-e", code, env: { "GYRE_BACKEND" => "io_uring" })
    assert_equal expected, output.out, output.err
  end
end
