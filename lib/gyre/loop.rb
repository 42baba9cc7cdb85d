# frozen_string_literal: true

# Gyre::Loop: an event loop without callbacks. The program gives watches keys of its own, and gets
# the keys back. Has the methods of both engines; ext/gyre/keyed adds the native engine's,
# Gyre::Loop::PortableKeyed the portable one's.
require_relative "loop/backends"
require_relative "loop/file_watch"
require_relative "loop/portable_keyed"
require_relative "loop/process_watch"
require_relative "loop/signal_watch"

module Gyre
  # See docs/loop.md. Programs may subclass it.
  class Loop
    # The extension owns a part of the object.
    # @api private
    def self.new(...)
      native?
      super
    end

    # Makes a loop. In a thread with a Gyre scheduler, uses the scheduler's loop, whatever the
    # requested backend.
    # @param backend [String, Symbol, nil] one of {availables}; nil takes that of GYRE_BACKEND, or
    #   else the best one
    # @raise [ArgumentError] for an unknown backend
    # @raise [RuntimeError, SystemCallError] for one that is not built, or that the kernel refuses
    def initialize(backend = nil)
      case Loop.present_engine
      when :native then open_native(nil)
      when :portable then PortableKeyed.open(self)
      else Loop.on_backend(backend) { |engine, name| engine == :native ? open_native(name) : PortableKeyed.open(self) }
      end
    end

    # The engine of the thread's scheduler.
    # @return [Symbol, nil] nil without a Gyre scheduler
    # @api private
    def self.present_engine
      scheduler = Fiber.scheduler
      return unless scheduler && defined?(Scheduler) && scheduler.is_a?(Scheduler) && !scheduler.closed?

      scheduler.is_a?(Scheduler::Portable) ? :portable : :native
    end

    # Figures of the loop of the thread's scheduler (see {Scheduler#stats}).
    # @return [Hash{Symbol => Integer, Float}, nil] nil without a scheduler of Gyre's
    def self.stats
      Fiber.scheduler.stats if present_engine
    end

    # @!group Methods of both engines

    # @!method watch_io(key, io, writes = false, once = false, read: nil, write: nil, oneshot: nil)
    #   Queues the key while the io is ready: repeatedly until it is read empty (or written
    #   full), or once.
    #   @param key [Object] not in use at present
    #   @param io [IO, #to_io]
    #   @param writes [Boolean] true: to be written to; false: to be read from. Both by keywords,
    #     read: true, write: true
    #   @param once [Boolean] as the keyword oneshot: true: the watch ends with its event, before
    #     that is delivered
    #   @return [self]
    #   @raise [RuntimeError] when the key is in use
    #   @raise [IOError] when the io is closed; names the key
    #   @raise [ThreadError] when another thread uses the loop

    # @!method watch_fd(key, fd, writes = false, once = false, read: nil, write: nil, oneshot: nil)
    #   Watches a descriptor's number like {#watch_io}. Call {#unwatch} before its close.
    #   @param fd [Integer]
    #   @return [self]
    #   @raise [SystemCallError] when it cannot be watched; names the key

    # @!method watch_timer(key, duration, repeat = 0, interval: repeat)
    #   Queues the key when the time has come. A late recurring timer comes once for all missed
    #   times.
    #   @param duration [Numeric] seconds until the first time
    #   @param interval [Numeric, nil] also as third argument: seconds between the following times;
    #     0 or nil: only once
    #   @return [self]
    #   @raise [RuntimeError] when the key is in use

    # @!method unwatch(key)
    #   Ends the watch of a key. Delivers an event of it that is already queued.
    #   @param key [Object] harmless if nothing is watched under it
    #   @return [self]
    #   @raise [ThreadError] when another thread uses the loop

    # @!method watching?(key)
    #   @return [Boolean] whether something is watched under the key

    # @!method stats
    #   The loop's activity and state (see {Scheduler#stats}). On a scheduler's loop, shows the
    #   scheduler's figures.
    #   @return [Hash{Symbol => Integer, Float}]
    #   @raise [RuntimeError] when the loop is closed

    # @!method each
    #   Yields each event's key, in order, until {#stop}; then yields the rest of the queue and
    #   returns. Waits while the queue is empty, even if nothing is watched. Keeps the queue after a
    #   `break` or an exception; the next call begins with it.
    #   @yieldparam key [Object]
    #   @return [self]
    #   @raise [IOError] when an io that is watched was closed; names the key, whose watch is over
    #   @raise [ThreadError] when another thread uses the loop

    # @!method next_event
    #   Waits for the next event and returns its key.
    #   @return [Object, nil] nil after {#signal} and {#stop}, when no event is queued
    #   @raise as {#each}

    # @!method emit(key)
    #   Queues an event. Any thread or trap handler may call it.
    #   @param key [Object] is yielded; :stop does what {#stop} does
    #   @return the key

    # @!method signal
    #   Ends the present or next wait of a {#next_event}, which returns nil. From any thread and from
    #   a trap handler.
    #   @return [self]

    # @!method stop
    #   Ends {#each} after the present batch of events; ends the next {#each} if none runs now.
    #   From any thread and from a trap handler.
    #   @return [self]

    # @!method close
    #   Ends all watches and releases the loop's own descriptors.
    #   @return [nil]
    #   @raise [ThreadError] when another thread uses the loop

    # @!method backend
    #   @return [String, nil] the backend that it works on at present

    # @!method closed?
    #   @return [Boolean]

    # @!endgroup

    # The status of the process whose key was delivered last.
    # @return [Process::Status, nil]
    attr_reader :status

    # Queues the key at each signal of this name to the process. Restores the program's former
    # handler at the end of the signal's last watch.
    # @param key [Object] not in use at present
    # @param name [String, Symbol, Integer] as Signal.trap takes it
    # @return [self]
    # @raise [ArgumentError] for a signal that cannot be trapped
    # @raise [RuntimeError] when the key is in use
    def watch_signal(key, name) = start_helper(key, SignalWatch.new(self, key, name))

    # Queues the key once, after a child process has ended. {#status} is its status when the key is
    # delivered; no Process.wait is needed.
    # @param key [Object] not in use at present
    # @param pid [Integer]
    # @return [self]
    # @raise [RuntimeError] when the key is in use
    def watch_process(key, pid)
      start_helper(key, ProcessWatch.new(self, key, pid, engine_of_helpers) { |status| @status = status })
    end

    # Queues the key each time a file is changed, made, deleted or replaced, or something changes in
    # a folder. Uses inotify, or checks every half second.
    # @param key [Object] not in use at present
    # @param path [String, #to_path] the file may be missing, its folder not
    # @return [self]
    # @raise [SystemCallError] when its folder is not there
    # @raise [RuntimeError] when the key is in use
    def watch_file(key, path) = start_helper(key, FileWatch.new(path, engine_of_helpers))

    # @return [String]
    def inspect = "#<#{self.class} #{closed? ? "closed" : backend}>"

    private

    def start_helper(key, helper)
      begin
        watch_helper(key, helper, false)
      rescue Exception # rubocop:disable Lint/RescueException -- raised again
        helper.cancel
        raise
      end
      helper.start if helper.respond_to?(:start)
      self
    end

    # Returns descriptors for the helpers, or nil.
    def engine_of_helpers = Native
  end
end
