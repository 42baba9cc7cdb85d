# frozen_string_literal: true

# Gyre.select: waits for the first of several things, and does that one only. A selection is one
# such call. It tries its cases, in a random order so that none is starved; if none can be done,
# each registers where it waits, and the first one that becomes possible takes the selection: its
# offer can be taken once. Channels are locked together, in the order of their ids, while their
# cases are tried and registered, so that no message goes by in between.

require "gyre/clock"
require "gyre/errors"
require "gyre/sync/spin_lock"
require "gyre/sync/selection/offer"
require "gyre/sync/selection/cases"

module Gyre
  # Waits for the first of several things to happen, does that one and leaves the others as they
  # are. When several can be done at once, chance decides.
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
  #   signal. nil when the time is over.
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

    # A message comes out of a channel.
    # @param channel [Channel]
    # @yieldparam message [Object]
    def receive(channel, &block)
      add(Receive.new(channel, block))
    end

    # A message goes into a channel.
    # @param channel [Channel]
    # @param message [Object]
    # @yield when it has been sent
    def send(channel, message, &block)
      add(Send.new(channel, message, block))
    end

    # Time is over.
    # @param seconds [Numeric]
    def timer(seconds, &block)
      add(Timer.new(seconds, block))
    end

    # Something can be read. Needs a Gyre::Scheduler, as in Gyre.run.
    # @param io [IO, #to_io]
    # @yieldparam io [IO]
    def readable(io, &block)
      add(Readiness.new(io, IO::READABLE, block))
    end

    # Something can be written. Needs a Gyre::Scheduler, as in Gyre.run.
    # @param io [IO, #to_io]
    # @yieldparam io [IO]
    def writable(io, &block)
      add(Readiness.new(io, IO::WRITABLE, block))
    end

    # A task is over; its value or exception comes from its `wait`.
    # @param task [Task]
    # @yieldparam task [Task]
    def finished(task, &block)
      add(Finish.new(task, block))
    end

    # A signal has come.
    # @param signals [Signals]
    # @yieldparam name [String]
    def signal(signals, &block)
      receive(signals.channel, &block)
    end

    # Nothing else can be done at once. With this case, select never waits.
    def default(&block)
      @default = block || proc {}
      self
    end

    # @return [Boolean] whether it has no case yet
    def empty?
      @cases.empty? && @default.nil?
    end

    # @return [String] what it waits for
    def label
      events = @cases.reject { |one| one.is_a?(Timer) }
      (events.empty? ? @cases : events).join(" or ")
    end

    # @return [String]
    def inspect
      "#<#{self.class} #{label}>"
    end

    # Does one of the cases.
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

    # @return [Case, nil] the one that was taken; nil when there is a default, and nothing could be
    #   done at once
    def choose
      settled = false
      chosen = try || (wait unless @default)
      settled = true
      chosen
    ensure
      leave(settled) if @offer
    end

    # @return [Case, nil] the one that could be done at once; else they wait now, unless there is a
    #   default
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

    # In a random order; Gyre::Testing draws it by its seed.
    def shuffled(cases)
      cases.shuffle
    end

    # @return [Case] the one that was taken
    def wait
      timer = @cases.grep(Timer).min_by(&:seconds)
      @cases.each(&:wait_elsewhere)
      @offer.wait(timer&.seconds) || timer
    end

    # A case that stayed registered would take a message: so no exception for the thread comes here.
    def leave(settled)
      Thread.handle_interrupt(SpinLock::NEVER) do
        @cases.each(&:leave)
        @offer.taken&.give_back unless settled # this is being stopped just as something came
      end
    end

    def channels
      @cases.filter_map(&:channel).uniq(&:object_id).sort_by(&:object_id)
    end

    def locking(channels, &block)
      first, *others = channels
      first ? first.synchronize { locking(others, &block) } : yield
    end
  end
end
