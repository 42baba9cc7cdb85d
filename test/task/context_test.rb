# frozen_string_literal: true

# Values of a task and what its children have of them. Deadlines are in test/deadline_test.rb.

require "test_helper"
require "support/engines"
require "gyre"

GyreTest::Engines.test_case("TaskContextTest") do
  def test_a_value_is_the_tasks_own_until_it_is_set
    Gyre.run do |task|
      assert_nil task[:user]
      refute task.key?(:user)
      task[:user] = nil
      assert task.key?(:user)
      task["any key"] = 1
      assert_equal 1, Gyre::Task.current["any key"]
    end
  end

  def test_children_start_with_their_parents_values
    Gyre.run do |task|
      task[:user] = "anna"
      gate = Gyre::Queue.new
      child = task.async { |own| gate.pop && [own[:user], own.async { |inner| inner[:user] }.wait] }
      task[:user] = "berta"
      gate.push(true)
      assert_equal %w[anna anna], child.wait
      assert_equal("berta", task.async { |own| own[:user] }.wait)
      assert_equal("berta", task.async(transient: true) { |own| own[:user] }.wait)
      assert_equal("berta", Gyre.run { |own| own[:user] })
    end
  end

  def test_a_childs_values_are_invisible_to_parent_and_siblings
    Gyre.run do |task|
      task[:user] = "anna"
      child = task.async { |own| (own[:user] = "carla") && sleep(0.001) && own[:user] }
      sibling = task.async { |own| sleep(0.01) && own[:user] }
      assert_equal %w[carla anna anna], [child.wait, sibling.wait, task[:user]]
    end
  end

  def test_a_value_that_is_set_under_a_deadline_stays
    Gyre.run do |task|
      Gyre.with_deadline(5) { task[:user] = "anna" }
      assert_equal ["anna", nil], [task[:user], Gyre.deadline]
    end
  end

  def test_fiber_storage_is_inherited_too
    skip "fiber storage came with Ruby 3.2" unless Fiber.respond_to?(:[])
    Gyre.run do |task|
      Fiber[:user] = "anna"
      child = task.async { (Fiber[:seen] = Fiber[:user]) && sleep(0.001) && Fiber[:user] }
      assert_equal ["anna", nil], [child.wait, Fiber[:seen]]
      Fiber[:user] = nil
      assert_nil task.async { Fiber[:user] }.wait
    end
  end
end
