# frozen_string_literal: true

# Trees of tasks that do what is drawn: deadlines within timeouts within nested runs, children,
# channels and select, while others stop them. Whatever happens, each run ends, nothing but late
# tasks is reported, and no block takes the end of an outer deadline for its own.
require "test_helper"
require "support/engines"
require "support/stress"
require "gyre"

# What one tree of tasks does.
class RandomTree
  DEPTH_LIMIT = 5
  STEPS = %i[pause let_others deadline timeout child stop_one defer exchange select_one nested].freeze

  attr_reader :complaints

  def initialize(random)
    @random = random
    @tasks = []
    @channels = Array.new(2) { Gyre::Channel.new(random.rand(2)) }
    @complaints = []
  end

  def call(task)
    10.times { @tasks << task.async { |child| work(child, 0) } }
  end

  private

  def work(task, depth)
    @random.rand(1..4).times { perform(STEPS.sample(random: @random), task, depth + 1) if depth < DEPTH_LIMIT }
  ensure
    sleep 0.0005 if @random.rand(4).zero?
  end

  # The error of a child that was late, or of a channel that gave nothing, is as good as any other
  # outcome. That of a deadline under which a block of this task still runs must not be seen in that
  # block, and none before its time.
  def perform(step, task, depth)
    __send__(step, task, depth)
  rescue Gyre::TimeoutError => error
    deadline = error.deadline or return
    @complaints << "#{error.message} came out of #{step}" if deadline.raising_in?(task) || !deadline.passed?
  end

  def pause(*)
    sleep(@random.rand(4) / 1000.0)
  end

  def let_others(task, _depth)
    task.yield
  end

  def deadline(task, depth)
    Gyre.with_deadline(@random.rand(4) / 1000.0) { work(task, depth) }
  end

  def timeout(task, depth)
    task.with_timeout(@random.rand(4) / 1000.0) { work(task, depth) && pause }
  end

  def child(task, depth)
    @tasks << task.async(transient: @random.rand(5).zero?) { |child| work(child, depth) }
    @tasks.shift if @tasks.size > 20
    @tasks.last&.wait if @random.rand(2).zero?
  end

  def stop_one(*)
    @tasks.sample(random: @random)&.stop
  end

  def defer(task, depth)
    task.defer_stop { work(task, depth) && pause }
  end

  def exchange(*)
    channel = @channels.sample(random: @random)
    @random.rand(2).zero? ? channel.send(1, timeout: 0.002) : channel.receive(timeout: 0.002)
  end

  def select_one(*)
    Gyre.select(timeout: 0.002) do |on|
      @channels.each { |channel| on.receive(channel).send(channel, 2) }
      @tasks.each { |task| on.finished(task) }
    end
  end

  def nested(_task, depth)
    Gyre.run { |task| work(task, depth) }
  end
end

GyreTest::Engines.test_case("TreesStressTest") do
  include GyreTest::Stress

  def test_each_tree_ends_and_no_deadline_is_taken_for_another
    amount(60).times do |index|
      tree = RandomTree.new(random(index))
      _out, err = capture { Gyre.run { |task| tree.call(task) } }
      lost = err.scan(/unhandled in .*/).grep_v(/TimeoutError|deadline of/)
      assert_empty tree.complaints + lost, "seed #{Minitest.seed}, tree #{index}"
    end
  end
end
