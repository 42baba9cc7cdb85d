# frozen_string_literal: true

# Gyre::Memory: resident memory of this process and of others.

require "test_helper"
require "gyre/inspection/memory"

class InspectionMemoryTest < Minitest::Test
  def test_resident_memory_of_this_process_and_of_a_child
    skip "/proc is Linux's" unless File.exist?("/proc/self/statm")
    assert_operator Gyre::Memory.resident_bytes, :>, 1 << 20
    child = spawn("sleep", "10")
    assert_operator Gyre::Memory.resident_bytes(child), :>, 0
  ensure
    Process.kill(:KILL, child) && Process.wait(child) if child
  end

  def test_a_process_that_has_ended_has_none
    child = spawn("true")
    Process.wait(child)
    assert_nil Gyre::Memory.resident_bytes(child)
  end
end
