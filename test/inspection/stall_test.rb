# frozen_string_literal: true

# Tasks that all wait for what only another one would do, without a circle: reported once, in a
# process that has nothing else.

require "test_helper"
require "support/engines"

GyreTest::Engines.test_case("InspectionStallTest") do
  # Runs tasks until they are killed from outside by a signal that nothing else would send.
  def said_by(program, until_text: "only a signal")
    code = "require 'gyre'\n#{program}"
    with_subprocess(*ruby_command("-e", code)) do |_pid, _out, err|
      said = +""
      eventually { said << err.read_nonblock(10_000, exception: false).to_s.delete_prefix("wait_readable") and said.include?(until_text) }
      said
    end
  end

  def test_two_tasks_at_the_queues_that_they_fill_for_each_other
    said = said_by(<<~RUBY)
      Gyre.run do |task|
        one, two = Gyre::Queue.new, Thread::Queue.new
        task.async("a") { two.push(one.pop) }
        task.async("b") { one.push(two.pop) }
      end
    RUBY
    assert_match(/^Gyre: all of these wait, and only a signal could end it:
  task "a" is waiting for a queue to be filled at -e:4
  task "b" is waiting for a queue to be filled at -e:5$/, said)
  end

  def test_conditions_channels_barriers_and_mutexes
    said = said_by(<<~RUBY)
      Gyre.run do |task|
        mutex, condition, barrier = Mutex.new, ConditionVariable.new, Gyre::Barrier.new
        task.async("a") { mutex.synchronize { condition.wait(mutex) } }
        task.async("b") { Gyre::Channel.new.send(1) }
        barrier.async("c") { Gyre::Condition.new.wait }
        barrier.wait
      end
    RUBY
    assert_equal ["a condition variable", "room in a channel of 0", "a condition", "a task of a barrier"],
                 said.scan(/ is waiting for (.+) at -e:\d+$/).flatten
  end

  def test_it_is_reported_in_a_ractor_too
    said = said_by(<<~RUBY)
      Ractor.new { Gyre.run { |task| 2.times { task.async { Thread::Queue.new.pop } } } }
      sleep
    RUBY
    assert_equal 2, said.scan("is waiting for a queue to be filled").size
  end

  def test_silence_where_a_task_sleeps_or_listens_to_signals_or_another_thread_is_there
    two = "2.times { task.async { Thread::Queue.new.pop } };"
    ["#{two} task.async { sleep }", "#{two} Gyre.signals('USR1')", "#{two} Thread.new { sleep }", "#{two} task.after(60) {}",
     "#{two} task.async { IO.pipe.first.read }", "task.async { task.async { Thread::Queue.new.pop }.wait }.wait"].each do |tasks|
      said = said_by(<<~RUBY, until_text: "enough")
        Gyre.run do |task|
          task.scheduler.singleton_class.prepend(Module.new { def refuse_deadlock(*) = super.tap { $stderr.puts "enough" } })
          task.scheduler.suspicious = true
          #{tasks}
        end
      RUBY
      refute_includes said, "only a signal", tasks
    end
  end
end
