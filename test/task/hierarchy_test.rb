# frozen_string_literal: true

# How the tree of tasks looks in print.

require "test_helper"
require "support/engines"
require "stringio"
require "gyre"

GyreTest::Engines.test_case("TaskHierarchyTest") do
  def test_it_shows_name_status_and_annotation_indented_like_a_tree
    out = StringIO.new
    place = nil
    Gyre.run do |task|
      task.async("fetch") do |fetch|
        fetch.annotate("GET /index.html")
        place = __LINE__ + 1
        fetch.async { sleep }
        fetch.async("parse") { sleep }
        sleep
      end
      task.async("clock", transient: true) { sleep }
      assert_nil task.print_hierarchy(out)
      task.children.first.stop
    end
    assert_equal <<~TREE, out.string
      task "main": running
      ├── task "fetch": running (GET /index.html)
      │   ├── task at #{__FILE__}:#{place}: running
      │   └── task "parse": running
      └── task "clock": running, transient
    TREE
  end

  def test_it_prints_to_standard_output_by_default
    out, = capture { Gyre.run("alone", &:print_hierarchy) }
    assert_equal %(task "alone": running\n), out
  end

  def test_it_shows_what_came_of_a_task_that_is_over
    out = StringIO.new
    Gyre.run { |task| task.async("done") { nil }.print_hierarchy(out) }
    assert_equal %(task "done": completed\n), out.string
  end
end
