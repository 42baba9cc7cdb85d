# frozen_string_literal: true

# Gyre::Loop: an event loop without callbacks. Things are watched under keys of the program's own, and the program gets the keys
# back. This file has what both engines' loops share; they are Gyre::Loop::NativeKeyed (ext/gyre/keyed/keyed_loop.c) and
# Gyre::Loop::PortableKeyed. Written without newer syntax, so that every Ruby can load it.
require_relative "loop/backends"
require_relative "loop/file_watch"
require_relative "loop/portable_keyed"
require_relative "loop/process_watch"
require_relative "loop/signal_watch"

module Gyre
  # See docs/loop.md. watch_io, watch_fd, watch_timer, unwatch, each, next_event, emit, signal, stop and close are each engine's.
  class Loop
    # Makes a loop. In a thread that has a Gyre scheduler it works on the scheduler's loop, whatever backend is asked for.
    # @param backend [String, Symbol, nil] one of {availables}; nil takes what GYRE_BACKEND says, or else the best one
    # @return [NativeKeyed, PortableKeyed]
    # @raise [ArgumentError] for an unknown backend
    # @raise [RuntimeError, SystemCallError] for one that is not built, or that the kernel refuses
    def self.new(backend = nil)
      return super unless equal?(Loop)

      case present_engine
      when :native then NativeKeyed.new
      when :portable then PortableKeyed.new
      else on_backend(backend) { |engine, name| engine == :native ? NativeKeyed.new(name) : PortableKeyed.new(name) }
      end
    end

    # That of the thread's scheduler.
    # @return [Symbol, nil] nil if there is none, or one that is not ours
    def self.present_engine
      scheduler = Fiber.scheduler if Fiber.respond_to?(:scheduler)
      return unless scheduler && defined?(Scheduler) && scheduler.is_a?(Scheduler) && !scheduler.closed?

      scheduler.is_a?(Scheduler::Portable) ? :portable : :native
    end
    private_class_method :present_engine

    # The figures of the loop that the thread's scheduler works on (see {Scheduler#stats}).
    # @return [Hash{Symbol => Integer, Float}, nil] nil without a scheduler of Gyre's
    def self.stats
      Fiber.scheduler.stats if present_engine
    end

    # What the process returned whose key was delivered last.
    # @return [Process::Status, nil]
    attr_reader :status

    # Queues the key each time that the process gets a signal. What the program itself had trapped before is put back when the
    # last watch of the signal ends.
    # @param key [Object] not in use at present
    # @param name [String, Symbol, Integer] as Signal.trap takes it
    # @return [self]
    # @raise [ArgumentError] for a signal that cannot be trapped
    # @raise [RuntimeError] when the key is in use
    def watch_signal(key, name)
      start_helper(key, SignalWatch.new(self, key, name))
    end

    # Queues the key when a child process has ended, once. {#status} is its status when the key is delivered; it needs no
    # Process.wait any more.
    # @param key [Object] not in use at present
    # @param pid [Integer]
    # @return [self]
    # @raise [RuntimeError] when the key is in use
    def watch_process(key, pid)
      start_helper(key, ProcessWatch.new(self, key, pid, engine_of_helpers) { |status| @status = status })
    end

    # Queues the key each time that a file is changed, made, deleted or replaced, or that something changes in a folder.
    # By inotify where there is one, else by looking every half second.
    # @param key [Object] not in use at present
    # @param path [String, #to_path] the file need not be there; its folder must be
    # @return [self]
    # @raise [SystemCallError] when its folder is not there
    # @raise [RuntimeError] when the key is in use
    def watch_file(key, path)
      start_helper(key, FileWatch.new(path, engine_of_helpers))
    end

    # @return [String]
    def inspect
      "#<#{self.class} #{closed? ? "closed" : backend}>"
    end

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

    # What makes descriptors for the helpers; nil: they do without.
    def engine_of_helpers
      self.class.respond_to?(:pidfd) ? self.class : nil
    end
  end
end
