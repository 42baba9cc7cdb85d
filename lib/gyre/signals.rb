# frozen_string_literal: true

# The process's signals: as values to wait for (Gyre.signals), and as handlers during a block
# (Signals.handle, for Gyre::Web::Server). Restores former handlers unchanged (loop/traps.rb). A
# signal handler may take no lock, so it puts the name in a Thread::Queue, and a short-lived thread
# passes it on.

require "gyre/sync/channel"
require "gyre/loop/traps"
require "gyre/task"

module Gyre
  # Listens to signals, which lose their usual effect. Each signal goes to all its listeners. Ends
  # with the block, or without one with the calling task.
  # @example
  #   Gyre.signals("INT", "TERM").wait # until the process is asked to end
  # @param names [Array<String, Symbol>] "INT", "TERM", "HUP", "USR1", …
  # @yieldparam signals [Signals]
  # @return [Object, Signals] the block's value; without a block the listener
  # @raise [ArgumentError] when there is no such signal, or it cannot be handled
  # @raise [RuntimeError] without a block, outside of any task
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

  # Listens to signals. Its methods may be called from any thread.
  class Signals
    include Enumerable

    @arrived = Thread::Queue.new # [name, channel]
    @lock = Thread::Mutex.new

    class << self
      # Runs a block while `on_signal` handles the signals, together with other listeners.
      # @param names [Array<String>]
      # @param on_signal [Proc] called with the signal's name, in the signal handler: it may take no
      #   lock and must not wait
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
    # @return [Channel] of received signals; for Gyre.select use {Selection#signal}
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

    # Waits for the next signal.
    # @param timeout [Numeric, nil] seconds
    # @return [String, nil] its name; nil when the time is over, or the listener closed
    def wait(timeout: nil)
      @channel.receive(timeout: timeout)
    rescue TimeoutError, Channel::ClosedError
      nil
    end

    # Yields each signal until the listener is closed.
    # @yieldparam name [String]
    # @return [self]
    def each(&block)
      return enum_for(:each) unless block

      @channel.each(&block)
      self
    end

    # Stops listening. Without listeners a signal has its former effect.
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
