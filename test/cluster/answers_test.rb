# frozen_string_literal: true

# Questions of a supervisor to its workers (Crew#ask), and their answers (Answers), over links in
# one process.

require "test_helper"
require "gyre/core"
require "gyre/cluster/answers"
require "gyre/cluster/crew"

class ClusterAnswersTest < Minitest::Test
  include Gyre::Cluster

  # A worker's end of a link, with its answers.
  Far = Struct.new(:link, :answers, :task)
  # As the supervisor.
  Heed = Struct.new(:crew) do
    def message(member, _name, value) = crew.answered(member, value)

    def member_ended(member, status) = member.ended(self, status)

    def worker_ended(*); end
  end
  LATER = lambda do |_, wait|
    wait.call(60)
    "later"
  end

  def test_each_serving_worker_answers
    with_crew(%i[serving booting serving leaving], "double" => ->(number, _) { number * 2 }) do |crew|
      assert_equal [["worker 1", { "value" => 42 }], ["worker 3", { "value" => 42 }]], crew.ask("double", 21, timeout_s: 60)
    end
  end

  def test_a_question_without_an_answer_has_a_reason
    handlers = { "refuses" => ->(*) { raise Gyre::Error, "not now" }, "fails" => ->(*) { raise "broken" },
                 "large" => ->(*) { "x" * Link::MESSAGE_BYTES_LIMIT } }
    with_crew(%i[serving], handlers) do |crew|
      { "refuses" => "not now", "fails" => "failed: broken (RuntimeError)", "unknown" => "knows no unknown",
        "large" => "has too much to answer" }.each { |name, reason| assert_equal reason, error_of(crew, name) }
    end
  end

  def test_a_late_answer_does_not_count_for_the_next_question
    with_crew(%i[serving], {}) do |crew, (far)|
      far.task.stop
      assert_equal "has not answered", error_of(crew, "first", timeout_s: 0.01)
      number, = far.link.receive["ask"]
      assert_equal({ "forget" => number }, far.link.receive)
      second = Gyre::Task.current.async { crew.ask("second", timeout_s: 60) }
      asked, = far.link.receive["ask"]
      far.link.send({ answer: [number, { value: "late" }] })
      far.link.send({ answer: [asked, { value: "in time" }] })
      assert_equal [["worker 1", { "value" => "in time" }]], second.wait
    end
  end

  def test_numbers_of_the_next_program_are_others
    first, second = Array.new(2) do
      with_crew(%i[serving], {}) do |crew, (far)|
        far.task.stop
        error_of(crew, "any", timeout_s: 0)
        far.link.receive["ask"].first
      end
    end
    refute_includes first - 1000..first + 1000, second
  end

  def test_a_caller_that_is_stopped_lets_the_workers_give_up
    working, ended = Gyre::Promise.new, Gyre::Promise.new
    handler = lambda do |*|
      working.resolve
      sleep
    ensure
      ended.resolve
    end
    with_crew(%i[serving], "long" => handler, "short" => ->(*) { "short" }) do |crew|
      caller = Gyre::Task.current.async { crew.ask("long", timeout_s: 60) }
      working.wait(timeout: 60)
      caller.stop
      ended.wait(timeout: 60)
      assert_equal [["worker 1", { "value" => "short" }]], crew.ask("short", timeout_s: 60)
    end
  end

  def test_workers_that_end_have_their_reasons
    with_crew(%i[serving serving], "later" => LATER) do |crew, (far, *)|
      caller = Gyre::Task.current.async { crew.ask("later", timeout_s: 60) }
      far.task.stop
      far.link.close
      crew.workers.last.forget_all("had not answered when the program was replaced")
      assert_equal ["ended meanwhile", "had not answered when the program was replaced"], caller.wait.map { |_, answer| answer.fetch("error") }
    end
  end

  def test_a_worker_whose_run_ends_leaves_the_answer_that_it_has
    link = Link.pair
    answers = Answers.new(link.first, "later" => LATER, "deaf" => ->(*) { sleep })
    Gyre.run do
      answers.begin(1, "later", nil)
      answers.begin(2, "deaf", nil)
      answers.begin(3, "later", nil)
      answers.give_up(3)
    end
    assert_equal [%({"answer":[1,{"value":"later"}]}\n)], answers.rest
    assert_nil link.last.receive(wait: false)
  ensure
    link.each(&:close)
  end

  def test_an_answer_that_is_none_is_an_error
    crew = Crew.new(nil, nil, nil)
    worker = Member::Worker.new(nil, generation: 1, index: 1)
    [5, [1], [1, 2], ["1", {}], nil].each { |wrong| assert_raises(LinkError) { crew.answered(worker, wrong) } }
    assert_nil crew.answered(worker, [1, {}])
  end

  private

  def error_of(crew, name, timeout_s: 60) = crew.ask(name, timeout_s: timeout_s).first.last.fetch("error")

  # Yields a crew of workers in these phases, and the workers' ends.
  def with_crew(phases, handlers)
    heed = Heed.new
    crew = heed.crew = Crew.new(nil, heed, nil)
    Gyre.run do |task|
      crew.start(task)
      ends = phases.map.with_index(1) { |phase, index| far_end(task, crew, phase, index, handlers) }
      yield crew, ends
    ensure
      [*crew.members.map(&:link), *ends&.map(&:link)].each { |link| link.close unless link.closed? }
    end
  end

  def far_end(task, crew, phase, index, handlers)
    near, link = Link.pair
    answers = Answers.new(link, handlers)
    hears = task.async(transient: true) do
      while (message = link.receive)
        answers.begin(*message["ask"]) if message["ask"]
        answers.give_up(message["forget"]) if message["forget"]
      end
    end
    crew.add(Member::Worker.new(near, generation: 1, index: index, phase: phase))
    Far.new(link, answers, hears)
  end
end
