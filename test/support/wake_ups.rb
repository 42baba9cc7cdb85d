# frozen_string_literal: true

# What test/stress/wake_ups_test.rb draws: random tasks at one thing that they wait for, with inner
# fibers, timeouts that end in the same turn as other things happen, and stops and kills at any
# step. Everything is drawn from one seed, also the order in which what is ready runs. Afterwards
# two things must hold: what was given is held by a task or still there, and no task waits for what
# is free.

require "monitor"
require "timeout"
require "gyre"
require "support/portable_simulation"

module GyreTest
  # One story: some tasks do random things to one subject while others stop them.
  class WakeUps
    # One step of the virtual clock. It is short, because Thread::Queue#pop looks at the real clock
    # when its time is over.
    STEP_S = 0.000_001
    # Longer than all pauses and timeouts of a story.
    LONG_S = STEP_S * 10_000
    # In Ruby before 3.3 an Enumerator's fiber is a blocking one: it stops its thread when it waits.
    INNER = RUBY_VERSION < "3.3" ? %i[none none fiber nested] : %i[none none fiber nested enumerator]

    def self.complaint(subject, seed)
      new(subject, seed).complaint
    end

    def initialize(subject, seed)
      @seed = seed
      @random = Random.new(seed)
      @kind = subject
      @busy = {}.compare_by_identity # task => what it is about to do
    end

    def complaint
      complaint = nil
      Gyre::Testing.run(seed: @seed) do |task|
        @subject = @kind.new(@random)
        tasks = start(task)
        sleep LONG_S
        complaint = @subject.complaint(@busy.values)
        tasks.each(&:stop)
        tasks.each(&:wait)
        complaint ||= @subject.complaint_at_end
      end
      complaint
    end

    private

    def start(task)
      @workers = []
      @random.rand(3..6).times do |index|
        random = Random.new((@seed * 64) + index)
        @workers << task.async("worker #{index}") { |worker| work(worker, random) }
      end
      stoppers = Array.new(@random.rand(0..3)) do |index|
        random = Random.new((@seed * 64) + 32 + index)
        task.async("stopper #{index}") { |stopper| stop_some(stopper, random) }
      end
      @workers + stoppers
    end

    def work(task, random)
      pause(task, random)
      random.rand(1..4).times do
        action = @subject.draw(random)
        @busy[task] = action
        begin
          act(task, random, action)
        rescue Timeout::Error, Gyre::TimeoutError, ClosedQueueError
          nil # its time was over
        end
        @busy.delete(task)
        end_one(random) if random.rand(5).zero?
        pause(task, random)
      end
    ensure
      @busy.delete(task)
    end

    def end_one(random)
      victim = @workers.sample(random: random)
      @kind::ENDS.sample(random: random) == :kill ? victim&.fiber&.kill : victim&.stop
    end

    def act(task, random, action)
      own_s = seconds(random) if random.rand(4).zero?
      limited(task, random, 3) do
        inside(random) do
          limited(task, random, 8) { @subject.public_send(action, own_s, -> { pause(task, random) }) }
        end
      end
    end

    def stop_some(task, random)
      random.rand(1..2).times do
        pause(task, random)
        @subject.supply if random.rand(2).zero?
        end_one(random)
      end
    end

    def pause(task, random)
      case random.rand(5)
      when 0 then task.yield
      when 1, 2 then sleep(STEP_S * random.rand(1..3))
      end
    end

    def seconds(random)
      STEP_S * random.rand(1..3)
    end

    # Runs the block with or without a timeout, which one in so many have.
    def limited(task, random, one_in, &block)
      return yield unless random.rand(one_in).zero?

      random.rand(2).zero? ? Timeout.timeout(seconds(random), &block) : task.with_timeout(seconds(random)) { yield }
    end

    def inside(random, &block)
      case INNER.sample(random: random)
      when :none then yield
      when :fiber then Fiber.new(&block).resume
      when :nested then Fiber.new { Fiber.new(&block).resume }.resume
      when :enumerator then Enumerator.new { |yielder| yielder << block.call }.next
      end
    end

    # --- what is waited for ---

    # What tasks do to it are methods with the seconds of its own timeout, or nil, and what to call
    # while they hold it.
    class Subject
      # Fiber#kill came with Ruby 3.3.
      ENDS = Fiber.method_defined?(:kill) ? %i[stop stop kill] : %i[stop]

      def initialize(random)
        @count = 0
        prepare(random)
      end

      # Returns what to do: one of the class's ACTIONS.
      def draw(random)
        self.class::ACTIONS.sample(random: random)
      end

      # Gives something without waiting, for which tasks may wait.
      def supply; end

      def complaint(busy)
        "waits for what is free: #{busy.join(" ")}, #{describe}" unless busy.empty?
      end

      # Returns what is wrong when all tasks have ended.
      def complaint_at_end; end

      private

      def number
        @count += 1
      end
    end

    # A lock is free in the end.
    class Mutexes < Subject
      ACTIONS = %i[hold].freeze

      def prepare(_random)
        @mutex = Thread::Mutex.new
      end

      def hold(_limit_s, hold)
        @mutex.synchronize(&hold)
      end

      def complaint_at_end
        "locked by no task" if @mutex.locked?
      end

      def describe
        @mutex.locked? ? "locked" : "free"
      end
    end

    # The same for Monitor, which is locked several times by one fiber.
    class Monitors < Subject
      ACTIONS = %i[hold].freeze

      def prepare(_random)
        @monitor = Monitor.new
      end

      def hold(_limit_s, hold)
        @monitor.synchronize { @monitor.synchronize(&hold) }
      end

      def complaint_at_end
        "locked by no task" if @monitor.mon_locked?
      end

      def describe
        @monitor.mon_locked? ? "locked" : "free"
      end
    end

    # Items are in the queue or have come out of it once.
    class Queues < Subject
      ACTIONS = %i[pop pop push].freeze

      def prepare(_random)
        @queue = Thread::Queue.new
        @pushed = []
        @popped = []
      end

      def pop(limit_s = nil, _hold = nil)
        item = limit_s && TIMEOUTS ? @queue.pop(timeout: limit_s) : @queue.pop
        @popped << item if item
      end

      def push(_limit_s = nil, _hold = nil)
        item = number
        @queue.push(item)
        @pushed << item
      end

      def supply
        push
      end

      def complaint(busy)
        super if (busy.include?(:pop) && !@queue.empty?) || (busy.include?(:push) && room?)
      end

      # Endless: no push waits.
      def room? = false

      def complaint_at_end
        lost = @pushed - @popped - Array.new(@queue.size) { @queue.pop }
        twice = @popped.tally.select { |_, times| times > 1 }.keys
        return "lost: #{lost}" if lost.any?
        return "came twice: #{twice}" if twice.any?

        "waiters that are gone: #{waiting}" unless waiting.zero?
      end

      def waiting
        @queue.num_waiting
      end

      def describe
        "#{@queue.size} items"
      end

      # Thread::Queue#pop and SizedQueue#push take one since Ruby 3.2.
      TIMEOUTS = RUBY_VERSION >= "3.2"
    end

    # In addition there is room for so many only.
    class SizedQueues < Queues
      ACTIONS = %i[pop push push].freeze

      def prepare(random)
        super
        @queue = Thread::SizedQueue.new(random.rand(1..2))
      end

      # Without its own timeout: in Ruby a push whose time is over as it is woken leaves the room
      # that it was woken for to none (docs/tasks.md).
      def push(_limit_s = nil, _hold = nil)
        item = number
        @queue.push(item)
        @pushed << item
      end

      def supply
        item = number
        @queue.push(item, true)
        @pushed << item
      rescue ThreadError
        nil # full
      end

      def room? = @queue.size < @queue.max
    end

    class GyreQueues < Queues
      def prepare(random)
        super
        @queue = random.rand(2).zero? ? Gyre::Queue.new : Gyre::PriorityQueue.new
      end

      def pop(limit_s = nil, _hold = nil)
        item = @queue.pop(timeout: limit_s)
        @popped << item if item
      end

      def waiting
        @queue.waiting
      end
    end

    class LimitedQueues < GyreQueues
      ACTIONS = %i[pop push push].freeze

      def prepare(random)
        super
        @queue = Gyre::LimitedQueue.new(random.rand(1..2))
      end

      def room? = !@queue.full?

      def supply
        push unless @queue.full?
      end

      def waiting
        @queue.waiting + @queue.waiting_to_push
      end
    end

    # Things that are counted under a mutex. One signal for each.
    class ConditionVariables < Subject
      ACTIONS = %i[take take give].freeze
      # A killed fiber cannot wait for its mutex again (docs/tasks.md).
      ENDS = %i[stop].freeze

      def prepare(_random)
        @mutex = Thread::Mutex.new
        @variable = Thread::ConditionVariable.new
        @there = 0
      end

      def take(limit_s, hold)
        @mutex.synchronize do
          until @there.positive?
            @variable.wait(@mutex, limit_s)
            return if limit_s && !@there.positive?
          end
          @there -= 1
          hold.call
        end
      end

      def give(_limit_s, hold)
        @mutex.synchronize do
          @there += 1
          @variable.signal
          hold.call
        end
      end

      def complaint(busy)
        super if @mutex.locked? || busy.include?(:give) || (busy.include?(:take) && @there.positive?)
      end

      def complaint_at_end
        "locked by no task" if @mutex.locked?
      end

      def describe
        "#{@there} there, #{@mutex.locked? ? "locked" : "free"}"
      end
    end

    # Places come back.
    class Semaphores < Subject
      ACTIONS = %i[hold hold hold_by_hand].freeze

      def prepare(random)
        @semaphore = Gyre::Semaphore.new(@limit = random.rand(1..2))
        @held = 0
      end

      def hold(_limit_s, hold)
        @semaphore.acquire { count(&hold) }
      end

      def hold_by_hand(_limit_s, hold)
        @semaphore.acquire
        begin
          count(&hold)
        ensure
          @semaphore.release
        end
      end

      def complaint_at_end
        return @broken if @broken
        return "#{@semaphore.count} places are held by no task" unless @semaphore.count.zero?

        "waiters that are gone: #{@semaphore.waiting}" unless @semaphore.waiting.zero?
      end

      def describe
        @semaphore.inspect
      end

      private

      def count
        @held += 1
        @broken = "#{@held} hold a semaphore of #{@limit}" if @held > @limit
        yield
      ensure
        @held -= 1
      end
    end

    # Messages are in the channel or have come out of it once; what was sent, or seems not to have
    # been, at most once.
    class Channels < Subject
      ACTIONS = %i[receive receive send send select].freeze

      def prepare(random)
        @channel = Gyre::Channel.new(random.rand(0..2))
        @other = Gyre::Channel.new(random.rand(0..1))
        @sent = []
        @received = []
      end

      def receive(limit_s = nil, _hold = nil)
        @received << @channel.receive(timeout: limit_s)
      end

      def send(limit_s = nil, _hold = nil)
        message = number
        @channel.send(message, timeout: limit_s)
        @sent << message
      end

      def select(limit_s = nil, _hold = nil)
        message = number
        Gyre.select(timeout: limit_s) do |on|
          on.receive(@channel) { |received| @received << received }
          on.send(@other, message) { @sent << message }
        end
      end

      def complaint(busy)
        receiving = busy.any? { |action| %i[receive select].include?(action) }
        sending = busy.include?(:send)
        super if (receiving && (sending || !@channel.empty?)) || (sending && @channel.size < @channel.capacity)
      end

      def complaint_at_end
        left = [@channel, @other].flat_map { |channel| Array.new(channel.size) { channel.receive } }
        lost = @sent - @received - left
        twice = (@received + left).tally.select { |_, times| times > 1 }.keys
        return "lost: #{lost}" if lost.any?
        return "came twice: #{twice}" if twice.any?

        "waiters that are gone: #{describe}" if [@channel, @other].any? { |channel| channel.inspect.match?(/[1-9]\d* (?:receiving|sending)/) }
      end

      def describe
        [@channel, @other].inspect
      end
    end

    # No waiter is left out when it is signalled.
    class Conditions < Subject
      ACTIONS = %i[wait wait signal].freeze

      def prepare(_random)
        @condition = Gyre::Condition.new
        @waiting = {}.compare_by_identity
        @called = {}.compare_by_identity
      end

      def wait(limit_s = nil, _hold = nil)
        @waiting[me = Object.new] = true
        @condition.wait(timeout: limit_s)
      ensure
        @waiting.delete(me)
        @called.delete(me)
      end

      def signal(_limit_s = nil, _hold = nil)
        @called.update(@waiting)
        @condition.signal(:value)
      end

      def supply
        signal
      end

      def complaint(_busy)
        "still wait: #{@called.size}" if @called.any?
      end

      def complaint_at_end
        "waiters that are gone: #{@condition.waiting}" unless @condition.empty?
      end
    end

    # All waiters for a promise or for the end of a task get it, also later ones.
    class Results < Subject
      ACTIONS = %i[promise promise settle task task end_task].freeze

      def prepare(_random)
        @promise = Gyre::Promise.new
        @end = Gyre::Promise.new
        @task = Gyre::Task.current.async { @end.wait }
      end

      def promise(limit_s = nil, _hold = nil)
        @promise.wait(timeout: limit_s)
      end

      def settle(_limit_s = nil, _hold = nil)
        @promise.resolve(1)
      end

      def task(limit_s = nil, _hold = nil)
        @task.wait(timeout: limit_s)
      end

      def end_task(_limit_s = nil, _hold = nil)
        @end.resolve(2)
      end

      def complaint(busy)
        super if (busy.include?(:promise) && !@promise.pending?) || (busy.include?(:task) && @task.finished?) ||
                 (!@end.pending? && !@task.finished?)
      end

      def complaint_at_end
        @task.stop.wait
        waiting = @promise.waiting + @end.waiting
        "waiters that are gone: #{waiting}" unless waiting.zero?
      end

      def describe
        [@promise, @end, @task].inspect
      end
    end

    SUBJECTS = [Mutexes, Monitors, Queues, SizedQueues, ConditionVariables, Semaphores, Channels, Conditions, Results, GyreQueues,
                LimitedQueues].freeze
  end
end
