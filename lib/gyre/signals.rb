# frozen_string_literal: true

# Lets tasks wait for signals (Gyre.signals) and sets handlers during a block (Signals.handle).
# loop/traps.rb restores former handlers. A signal handler may take no lock, so it pushes the name
# to a Thread::Queue, and a short-lived thread sends it to the channel.

require "gyre/sync/channel"
require "gyre/task"

module Gyre
  # Listens to signals until the block's end, or until the task's end if no block is given. The
  # signals lose their usual effect. Each signal reaches all listeners.
  # @example
  #   Gyre.signals("INT", "TERM").wait
  # @param names [Array<String, Symbol>] "INT", "TERM", "HUP", "USR1", …
  # @yieldparam signals [Signals]
  # @return [Object, Signals] the block's value, or the listener
  # @raise [ArgumentError] no such signal, or it cannot be handled
  # @raise [RuntimeError] neither a block nor a task
  def self.signals(*names)
    raise ArgumentError, "which signals?" if names.empty?
    return Signals.new(*names).tap(&:close_with_task) unless block_given?

    signals = Signals.new(*names)
    begin
      yield signals
    ensure
      signals.close
    end
  end

  # Any thread may call its methods.
  class Signals
    include Enumerable

    @arrived = Thread::Queue.new # [name, channel]
    @lock = Thread::Mutex.new

    class << self
      # Handles signals during a block. Other listeners get them, too.
      # @param names [Array<String>]
      # @param on_signal [Proc] gets the name in the signal handler, where it may neither lock nor
      #   wait
      # @return [Object] the block's value
      def handle(names, on_signal)
        listeners = []
        names.each { |name| listeners << Loop::Traps.add(name) { on_signal.call(name) } }
        yield
      ensure
        listeners.each { |listener| Loop::Traps.remove(listener) }
      end

      # Runs in the signal handler.
      # @api private
      def arrived(name, channel)
        @arrived.push([name, channel])
        Thread.new { hand_on }
      end

      private

      def hand_on
        @lock.synchronize do
          name, channel = @arrived.pop(true)
          channel.send(name)
        rescue Channel::ClosedError
          # The listener was closed meanwhile.
        end
      end
    end

    # @return [Array<String>] without SIG
    attr_reader :names
    # @return [Channel] received signals; for Gyre.select use {Selection#signal}
    attr_reader :channel

    # Use Gyre.signals.
    # @api private
    def initialize(*names)
      @names = names.map { |name| name.to_s.delete_prefix("SIG") }.uniq
      @channel = Channel.new(Float::INFINITY)
      @listeners = []
      @names.each { |name| @listeners << Loop::Traps.add(name) { Signals.arrived(name, @channel) } }
    rescue ArgumentError, Errno::EINVAL => error
      close
      raise ArgumentError, "listen to #{names.join(", ")}: #{error.message}"
    end

    # Waits for a signal.
    # @param timeout [Numeric, nil] seconds
    # @return [String, nil] its name; nil after the timeout or the listener's end
    def wait(timeout: nil)
      @channel.receive(timeout: timeout)
    rescue TimeoutError, Channel::ClosedError
      nil
    end

    # Yields signals until the listener is closed.
    # @yieldparam name [String]
    # @return [self]
    def each(&block)
      return enum_for(:each) unless block

      @channel.each(&block)
      self
    end

    # Stops listening. The end of a signal's last listener restores the former effect.
    # @return [self]
    def close
      @listeners.each { |listener| Loop::Traps.remove(listener) }
      @channel.close
      @task.stop unless @task.nil? || @task.equal?(Task.current?)
      self
    end

    # @return [String]
    def inspect = "#<#{self.class} #{@names.join(", ")}>"

    # @api private
    def close_with_task
      @task = Task.current.async("signals", transient: true) do |task|
        task.annotate(@names.join(", "))
        task.sleep
      ensure
        close
      end
    rescue RuntimeError, Error
      close
      raise
    end
  end
end
