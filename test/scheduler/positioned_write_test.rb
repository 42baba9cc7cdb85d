# frozen_string_literal: true

# IO#pwrite in a fiber while another thread collects garbage.
require "test_helper"
require "support/engines"
require "gyre"
require "tempfile"

GyreTest::Engines.test_case("SchedulerPositionedWriteTest") do
  def test_it_writes
    Tempfile.create("gyre") do |file|
      assert_equal 3, (Gyre.run { file.pwrite("two", 4) })
      assert_equal 4, file.pwrite("one ", 0)
      assert_equal "one two", file.read
    end
  end

  # In a process of its own: without the detour Ruby 3.4 crashes in a second or three.
  def test_a_collection_meanwhile_is_harmless
    run = ruby("-rgyre", "-rtempfile", "-e", <<~RUBY)
      Thread.new { loop { GC.start.then { Thread.pass } } }
      Gyre.run { Tempfile.create("gyre") { |file| 300.times { |number| file.pwrite("x", number) } } }
      print "written"
    RUBY
    assert_equal ["written", ""], [run.out, run.err.lines.first(3).join]
    assert_predicate run.status, :success?
  end
end
