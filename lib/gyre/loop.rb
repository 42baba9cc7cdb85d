# frozen_string_literal: true

# Gyre::Loop: an event loop without callbacks. The program gives each watch a key and gets the key
# back with each event. ext/gyre/keyed adds the native engine's methods, Gyre::Loop::PortableKeyed
# those of the portable engine.
require_relative "loop/backends"
require_relative "loop/helpers"
require_relative "loop/portable_keyed"

module Gyre
  # See docs/loop.md. May be subclassed.
  class Loop
    # Loads the extension, which defines a part of this class.
    # @api private
    def self.new(...)
      native?
      super
    end

    # Makes a loop. If the thread has a Gyre scheduler, uses the scheduler's loop.
    # @param backend [String, Symbol, nil] one of {availables}; nil: GYRE_BACKEND, or the best
    # @raise [ArgumentError] an unknown backend
    # @raise [RuntimeError, SystemCallError] the backend is not built, or the kernel refuses it
    def initialize(backend = nil)
      case Loop.present_engine
      when :native then open_native(Fiber.scheduler.backend)
      when :portable then PortableKeyed.open(self)
      else Loop.on_backend(backend) { |engine, name| engine == :native ? open_native(name) : PortableKeyed.open(self) }
      end
    end

    # The engine of the thread's scheduler.
    # @return [Symbol, nil] nil if the thread has no Gyre scheduler
    # @api private
    def self.present_engine
      scheduler = Fiber.scheduler
      return unless scheduler && defined?(Scheduler) && scheduler.is_a?(Scheduler) && !scheduler.closed?

      scheduler.is_a?(Scheduler::Portable) ? :portable : :native
    end

    # Figures of the thread's scheduler ({Scheduler#stats}).
    # @return [Hash{Symbol => Integer, Float}, nil] nil if the thread has no Gyre scheduler
    def self.stats = (Fiber.scheduler.stats if present_engine)

    # Returns where this thread's loop has spent its time since the scheduler was made: a row for
    # each route, and for each task by its name, or file and line of its block. A request counts at
    # its end, with the tasks that it starts. "(loop)" is the loop's own work (connections, TLS,
    # parsing, timers), "(threads)" that of all other threads, "(none)" are responses 404 without a
    # route. Beyond 200 rows all is in "(other)".
    #
    # requests: requests that have ended. cpu_s: seconds of CPU. blocked_s: seconds in which code
    # kept the loop without using the processor, in stretches over 100 µs: blocking calls, waits for
    # other threads and programs. longest_s: the longest stretch without a switch. allocations:
    # objects.
    # @return [Hash{String => Hash{Symbol => Integer, Float}}, nil] nil without a scheduler of the
    #   native engine
    # @example
    #   Gyre::Loop.usage["/posts/:id"]
    #   # => {requests: 9, cpu_s: 0.01, blocked_s: 0.0, longest_s: 0.002, allocations: 9120}
    def self.usage = present_engine == :native ? Fiber.scheduler.usage : nil

    # @!group Methods of both engines

    # @!method watch_io(key, io, writes = false, once = false, read: nil, write: nil, oneshot: nil)
    #   Queues the key while the io is ready, that is until it is read empty (or written full). With
    #   `once`, queues it one time.
    #   @param key [Object] not in use
    #   @param io [IO, #to_io]
    #   @param writes [Boolean] true: to write; false: to read; for both: read: true, write: true
    #   @param once [Boolean] like oneshot: true: the watch ends before its event is delivered
    #   @return [self]
    #   @raise [RuntimeError] the key is in use
    #   @raise [IOError] the io is closed; names the key
    #   @raise [ThreadError] another thread uses the loop

    # @!method watch_fd(key, fd, writes = false, once = false, read: nil, write: nil, oneshot: nil)
    #   Watches a descriptor like {#watch_io}. {#unwatch} must precede its close.
    #   @param fd [Integer]
    #   @return [self]
    #   @raise [SystemCallError] it cannot be watched; names the key

    # @!method watch_timer(key, duration, repeat = 0, interval: repeat)
    #   Queues the key when the time has come. Queues it once for all times that were missed.
    #   @param duration [Numeric] seconds until the first time
    #   @param interval [Numeric, nil] also the third argument: seconds between times; 0, nil: fires
    #     once
    #   @return [self]
    #   @raise [RuntimeError] the key is in use

    # @!method unwatch(key)
    #   Ends a key's watch. An event that is already queued is still delivered.
    #   @param key [Object] may have no watch
    #   @return [self]
    #   @raise [ThreadError] another thread uses the loop

    # @!method watching?(key)
    #   @return [Boolean]

    # @!method stats
    #   Returns activity and state ({Scheduler#stats}) of the loop, or of its scheduler if it has
    #   one.
    #   @return [Hash{Symbol => Integer, Float}]
    #   @raise [RuntimeError] the loop is closed

    # @!method each
    #   Yields the keys of events in order until {#stop}, then the rest of the current batch. Waits
    #   while the queue is empty, even if there are no watches. May be called again after a `break`
    #   or an exception.
    #   @yieldparam key [Object]
    #   @return [self]
    #   @raise [IOError] a watched io was closed; the message names the key, whose watch has ended
    #   @raise [ThreadError] another thread uses the loop

    # @!method next_event
    #   Waits for an event and returns its key.
    #   @return [Object, nil] nil after {#signal} or {#stop}, if no event is queued
    #   @raise as {#each}

    # @!method emit(key)
    #   Queues an event. Any thread or trap handler may call it.
    #   @param key [Object] :stop acts like {#stop}
    #   @return [Object] the key

    # @!method signal
    #   Makes the present or next {#next_event} return nil. Any thread or trap handler may call it.
    #   @return [self]

    # @!method stop
    #   Ends the present {#each} after its batch of events; if there is none, ends the next {#each}.
    #   Any thread or trap handler may call it.
    #   @return [self]

    # @!method close
    #   Ends all watches and releases the loop's own descriptors.
    #   @return [nil]
    #   @raise [ThreadError] another thread uses the loop

    # @!method backend
    #   @return [String, nil] the present backend

    # @!method closed?
    #   @return [Boolean]

    # @!endgroup

    # Status of the process whose key was delivered last.
    # @return [Process::Status, nil]
    attr_reader :status

    # Queues the key at each signal of this name. The end of the last watch restores the former
    # handler.
    # @param key [Object] not in use
    # @param name [String, Symbol, Integer] for Signal.trap
    # @return [self]
    # @raise [ArgumentError] the signal cannot be trapped
    # @raise [RuntimeError] the key is in use
    def watch_signal(key, name) = start_helper(key, SignalWatch.new(self, key, name))

    # Queues the key once a child has ended. {#status} then has the child's status, and the program
    # need not call Process.wait.
    # @param key [Object] not in use
    # @param pid [Integer]
    # @return [self]
    # @raise [RuntimeError] the key is in use
    def watch_process(key, pid) = start_helper(key, ProcessWatch.new(self, key, pid, engine_of_helpers) { |status| @status = status })

    # Queues the key each time that a file changes, appears, disappears or is replaced, or that a
    # folder's contents change. Uses inotify; where it is missing, checks every half second.
    # @param key [Object] not in use
    # @param path [String, #to_path] the file may be missing, but not its folder
    # @return [self]
    # @raise [SystemCallError] the folder is missing
    # @raise [RuntimeError] the key is in use
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

    # Returns the module that makes the helpers' descriptors.
    def engine_of_helpers = Native
  end
end
