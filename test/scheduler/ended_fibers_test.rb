# frozen_string_literal: true

# Fibers that enter others, which end while the first ones wait.

require "test_helper"
require "gyre"

class EndedFibersTest < Minitest::Test
  # Ruby reads the entered fiber when the way leads back, and crashed after its memory was reused.
  def test_a_waiting_fiber_keeps_the_fiber_that_it_has_entered
    skip "needs the extension" unless Gyre::Loop.native?

    Gyre.run do |task|
      entered, hold, turn = Array.new(3) { Thread::Queue.new }
      ended = ObjectSpace::WeakMap.new
      waiting = Array.new(20) do
        Fiber.schedule { entered.pop.then { ended[Fiber.current] = true } }
        task.async { turn.pop.then { entered.push(1) && hold.pop } }.tap { turn.push(1).then { sleep 0.001 } }
      end
      eventually { entered.empty? && entered.num_waiting.zero? }
      4.times { GC.start }
      assert_operator ended.size, :>=, 1 # the driver enters others on a busy machine
      hold.close
      waiting.each(&:wait)
    end
  end
end
