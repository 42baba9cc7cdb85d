# frozen_string_literal: true

# Gyre.select: waits for the first of several things, and does only that one. A selection is one
# such call. Tries its cases in random order, so that none is starved; if none is possible, each
# registers where it waits, and the first that becomes possible takes the selection's offer, once.
# Locks channels together, by id, while their cases are tried and registered, so that no message
# slips through.

require "gyre/clock"
require "gyre/errors"
require "gyre/sync/spin_lock"
require "gyre/sync/selection/offer"
require "gyre/sync/selection/cases"

module Gyre
  # Waits for the first of several events, handles it, and leaves the others alone. Chooses at
  # random if several are possible at once.
  #
  # @example
  #   Gyre.select do |on|
  #     on.receive(orders) { |order| cook(order) }
  #     on.send(meals, meal) { meal = nil }
  #     on.timer(60) { sweep_the_floor }
  #   end
  #
  # @param timeout [Numeric, nil] seconds; as a timer without a block
  # @yieldparam on [Selection] to name the cases
  # @return [Object] what the block of the case returns; without a block the message, the task, the
  #   signal. nil after the timeout.
  # @raise [Channel::ClosedError] when the case is one of a closed channel
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
    # @yield when it has been sent
    def send(channel, message, &block) = add(Send.new(channel, message, block))

    # Time is over.
    # @param seconds [Numeric]
    def timer(seconds, &block) = add(Timer.new(seconds, block))

    # Something can be read. Needs a Gyre::Scheduler, as in Gyre.run.
    # @param io [IO, #to_io]
    # @yieldparam io [IO]
    def readable(io, &block) = add(Readiness.new(io, IO::READABLE, block))

    # Something can be written. Needs a Gyre::Scheduler, as in Gyre.run.
    # @param io [IO, #to_io]
    # @yieldparam io [IO]
    def writable(io, &block) = add(Readiness.new(io, IO::WRITABLE, block))

    # A task is over; its `wait` gives the value or exception.
    # @param task [Task]
    # @yieldparam task [Task]
    def finished(task, &block) = add(Finish.new(task, block))

    # A signal has come.
    # @param signals [Signals]
    # @yieldparam name [String]
    def signal(signals, &block) = receive(signals.channel, &block)

    # Runs if nothing else is possible at once. With this case, select never waits.
    def default(&block)
      @default = block || proc {}
      self
    end

    # @return [Boolean] whether it has no case yet
    def empty? = @cases.empty? && @default.nil?

    # @return [String] what it waits for
    def label
      events = @cases.reject { |one| one.is_a?(Timer) }
      (events.empty? ? @cases : events).join(" or ")
    end

    # @return [String]
    def inspect = "#<#{self.class} #{label}>"

    # Does one case.
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

    # Returns the case taken; nil with a default if none was possible at once.
    def choose
      settled = false
      chosen = try || (wait unless @default)
      settled = true
      chosen
    ensure
      leave(settled) if @offer
    end

    # Returns a case that was possible at once; without one and without a default, all cases wait
    # now.
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

    # Uses a random order, drawn by Gyre::Testing's seed if there is one.
    def shuffled(cases) = cases.shuffle

    # Returns the case taken.
    def wait
      timer = @cases.grep(Timer).min_by(&:seconds)
      @cases.each(&:wait_elsewhere)
      @offer.wait(timer&.seconds) || timer
    end

    # Defers exceptions for the thread: a case left registered would take a message.
    def leave(settled)
      Thread.handle_interrupt(SpinLock::NEVER) do
        @cases.each(&:leave)
        @offer.taken&.give_back unless settled # stopped just as something came
      end
    end

    def channels = @cases.filter_map(&:channel).uniq(&:object_id).sort_by(&:object_id)

    def locking(channels, &block)
      first, *others = channels
      first ? first.synchronize { locking(others, &block) } : yield
    end
  end
end
