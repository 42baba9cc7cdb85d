# frozen_string_literal: true

# The links between tasks: children in the order of their birth, whichever of them end.

require "test_helper"
require "support/engines"
require "gyre"

GyreTest::Engines.test_case("TaskChildrenTest") do
  def test_children_are_listed_in_the_order_of_their_birth
    Gyre.run do |task|
      names = %w[a b c d]
      names.each { |name| task.async(name) { sleep } }
      assert_equal names, task.children.map(&:name)
      assert(task.children.all? { |child| child.parent.equal?(task) })
      task.children.each(&:stop)
    end
  end

  def test_finished_children_are_removed_wherever_they_are
    names = %w[a b c]
    names.permutation do |order|
      Gyre.run do |task|
        children = names.to_h { |name| [name, task.async(name) { sleep }] }
        left = names.dup
        order.each do |name|
          children[name].stop.wait
          left.delete(name)
          assert_equal left, task.children.map(&:name)
        end
      end
    end
  end

  def test_a_task_that_is_over_keeps_its_parent_and_not_its_children
    Gyre.run do |task|
      over = task.async { |inner| inner.async { nil } }
      assert_same task, over.parent
      assert_empty over.children
      assert_empty task.children
    end
  end
end
