# frozen_string_literal: true

# What can be asked of a task, in Async's words; status and result are in task_test.rb.

require "test_helper"
require "support/engines"
require "gyre"

GyreTest::Engines.test_case("TaskQuestionsTest") do
  def test_each_outcome_has_its_question
    Gyre.run do |task|
      good = task.async { sleep 0.001 }
      bad = task.async { sleep(0.001) && raise("x") }
      stopped = task.async { sleep }
      tasks = [good, bad, stopped]
      questions = %i[running? completed? failed? stopped? cancelled?]
      tasks.each { |one| assert_equal([true, *[false] * 4], questions.map { |question| one.public_send(question) }) }
      stopped.cancel
      assert_raises(RuntimeError) { [good, bad].each(&:wait) }
      stopped.wait
      answers = tasks.map { |one| questions.select { |question| one.public_send(question) } }
      assert_equal [[:completed?], [:failed?], %i[stopped? cancelled?]], answers
    end
  end

  def test_backtrace_shows_where_it_waits
    Gyre.run do |task|
      line = __LINE__ + 1
      child = task.async { sleep }
      assert(child.backtrace.any? { |place| place.include?("#{__FILE__}:#{line}") }, child.backtrace.inspect)
      child.stop.wait
      assert_nil child.backtrace
    end
  end
end
