# frozen_string_literal: true

# Gyre.select: waits for the first of several events and handles only this event. Tries its cases in
# random order, so that none starves. If no case is possible, all cases register where they wait,
# and the first that becomes possible takes the selection's offer. Locks all channels, in the order
# of their ids, while it tries the cases and registers them, or a message could slip through.

require "gyre/sync/selection/cases"

module Gyre
  # Waits for the first of several events and handles it. Chooses at random if several are possible.
  # @example
  #   Gyre.select do |on|
  #     on.receive(orders) { |order| cook(order) }
  #     on.send(meals, meal) { meal = nil }
  #     on.timer(60) { sweep_the_floor }
  #   end
  # @param timeout [Numeric, nil] seconds; like a timer without a block
  # @yieldparam on [Selection] takes the cases
  # @return [Object] the block's value, or the message, task or signal; nil after the timeout
  # @raise [Channel::ClosedError] a case's channel is closed
  def self.select(timeout: nil)
    selection = Selection.new
    yield selection
    raise ArgumentError, "select needs a case" if selection.empty? && timeout.nil?

    selection.call(timeout)
  end

  # The cases of one Gyre.select.
  class Selection
    # Use Gyre.select.
    # @api private
    def initialize
      @cases = []
      @default = nil
    end

    # Receives from a channel.
    # @param channel [Channel]
    # @yieldparam message [Object]
    def receive(channel, &block) = add(Receive.new(channel, block))

    # Sends to a channel.
    # @param channel [Channel]
    # @param message [Object]
    # @yield after it is sent
    def send(channel, message, &block) = add(Send.new(channel, message, block))

    # Waits until a time has passed.
    # @param seconds [Numeric]
    def timer(seconds, &block) = add(Timer.new(seconds, block))

    # Waits until an IO can be read; needs a Gyre::Scheduler.
    # @param io [IO, #to_io]
    # @yieldparam io [IO]
    def readable(io, &block) = add(Readiness.new(io, IO::READABLE, block))

    # Waits until an IO can be written; needs a Gyre::Scheduler.
    # @param io [IO, #to_io]
    # @yieldparam io [IO]
    def writable(io, &block) = add(Readiness.new(io, IO::WRITABLE, block))

    # Waits for the end of a task.
    # @param task [Task]
    # @yieldparam task [Task] its `wait` gives value or exception
    def finished(task, &block) = add(Finish.new(task, block))

    # Waits for a signal.
    # @param signals [Signals]
    # @yieldparam name [String]
    def signal(signals, &block) = receive(signals.channel, &block)

    # Runs if no case is possible now. A select with a default never waits.
    def default(&block)
      @default = block || proc {}
      self
    end

    # @return [Boolean] whether it has no case
    def empty? = @cases.empty? && @default.nil?

    # @return [String] for print_hierarchy
    def label
      events = @cases.reject { |one| one.is_a?(Timer) }
      (events.empty? ? @cases : events).join(" or ")
    end

    # @return [String]
    def inspect = "#<#{self.class} #{label}>"

    # Waits for a case and finishes it.
    # @api private
    # @param timeout [Numeric, nil]
    # @yield when the time is over
    # @return [Object]
    def call(timeout = nil, &late)
      timer(timeout, &late) if timeout
      chosen = choose or return @default.call
      chosen.finish
    end

    private

    def add(one)
      @cases << one
      self
    end

    # Returns the chosen case; nil if no case is possible and there is a default.
    def choose
      settled = false
      chosen = try || (wait unless @default)
      settled = true
      chosen
    ensure
      leave(settled) if @offer
    end

    # Returns a case that is possible now. If there is none, returns nil and, unless there is a
    # default, makes the cases of channels wait.
    def try
      locking(channels) do
        chosen = (@cases.size == 1 ? @cases : shuffled(@cases)).find(&:try)
        unless chosen || @default
          @offer = Offer.new(self)
          @cases.each { |one| one.wait_in_channel(@offer) }
        end
        chosen
      end
    end

    # Shuffles at random, or by the seed of Gyre::Testing.
    def shuffled(cases) = cases.shuffle

    def wait
      timer = @cases.grep(Timer).min_by(&:seconds)
      @cases.each(&:wait_elsewhere)
      @offer.wait(timer&.seconds) || timer
    end

    # Defers the thread's exceptions, as a case that stayed registered would take a message.
    def leave(settled)
      Thread.handle_interrupt(SpinLock::NEVER) do
        @cases.each(&:leave)
        @offer.taken&.give_back unless settled # stopped just as its event came
      end
    end

    def channels = @cases.filter_map(&:channel).uniq(&:object_id).sort_by(&:object_id)

    def locking(channels, &block)
      first, *others = channels
      first ? first.synchronize { locking(others, &block) } : yield
    end
  end
end
