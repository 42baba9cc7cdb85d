# frozen_string_literal: true

# A group of tasks that are awaited in the order in which they end, or stopped together. Belongs to
# the thread that uses it. Each task is a child of a task, not of the barrier.

require "gyre/sync/queue"
require "gyre/task"

module Gyre
  # @example the first of three answers
  #   barrier = Gyre::Barrier.new
  #   mirrors.each { |mirror| barrier.async { fetch(mirror) } }
  #   barrier.wait { |task| break task.wait }
  class Barrier
    # Ended tasks that are not awaited yet.
    class Ended < Queue
      # @return [String] for print_hierarchy
      def label = "a task of a barrier"
    end
    private_constant :Ended

    # @param parent [Task, Semaphore, #async, nil] starts the tasks; nil: the caller of {#async}
    def initialize(parent: nil)
      @parent = parent
      @tasks = {}.compare_by_identity # not awaited yet
      @ended = Ended.new
    end

    # Starts a task of this group.
    # @param name [String, nil] as for {Task#async}
    # @yieldparam task [Task]
    # @return [Task]
    def async(name = nil, **options, &block)
      raise ArgumentError, "async needs a block" unless block

      (@parent || Task.current).async(name, **options) do |task|
        @tasks[task] = true
        block.call(task)
      ensure
        @ended.push(task)
      end
    end

    # Waits until all tasks have ended, including later ones.
    # @yieldparam task [Task] each ended task. If no block is given, the first failed task ends
    #   the wait.
    # @return [self]
    # @raise [Exception] the first failed task's, if no block is given
    def wait
      until @tasks.empty?
        task = @ended.pop
        @tasks.delete(task)
        block_given? ? yield(task) : task.wait
      end
      self
    end

    # Stops all running tasks. If the calling task is one of them, raises Stop at the end.
    # @return [self]
    def stop
      own = nil
      @tasks.each_key do |task|
        task.stop
      rescue Stop => stop
        own = stop
      end
      raise own if own

      self
    end
    alias cancel stop

    # @return [Integer] tasks that are not awaited
    def size = @tasks.size

    # @return [Boolean]
    def empty? = @tasks.empty?
  end
end
