# frozen_string_literal: true

# Gyre::Scheduler: Ruby's Fiber::Scheduler on Gyre's loop, with the part shared by both engines.
# Made by Gyre.run, by `Fiber.set_scheduler(Gyre::Scheduler.new)`, or by a program, which may
# subclass it. ext/gyre/fiber adds the native engine's hooks, Gyre::Scheduler::Portable the portable
# one's.
require "forwardable"
require_relative "errors"
require_relative "loop"
require_relative "clock"
require_relative "inspection"
require_relative "offload"
require_relative "scheduler/async_guests"
require_relative "scheduler/fiber_raise"
require_relative "scheduler/fork"
require_relative "scheduler/io_buffer"
require_relative "scheduler/pooled_fiber"

module Gyre
  # The Fiber::Scheduler of a thread.
  class Scheduler
    extend Forwardable

    # Makes a scheduler with its own loop, on the backend's engine.
    # @param backend [String, Symbol, nil] one of {availables}; nil takes that of GYRE_BACKEND, or
    #   else the best one
    # @raise [ArgumentError] for an unknown backend
    # @raise [RuntimeError, SystemCallError] for one that is not built, or that the kernel refuses
    def initialize(backend = nil)
      Loop.on_backend(backend) { |engine, name| engine == :native ? open_native(name) : Portable.open(self) }
    end

    # Runs the remaining work on this thread's scheduler, then removes it.
    # @api private
    def self.leave
      Fiber.set_scheduler(nil)
    ensure
      Fiber.set_scheduler(nil) if Fiber.scheduler # after an exception there, Ruby 3.1 has kept the closed one
    end

    # The backends available on this machine.
    # @return [Array<String>] the best first, such as ["epoll", "io_uring", "select"]
    def self.availables
      Loop.availables
    end

    # Reports an exception that ended a fiber without waiters. May be overridden.
    # @param error [Exception]
    # @param fiber [Fiber, nil] nil for a callback of the loop
    def report(error, fiber)
      what = fiber ? fiber.inspect : "a callback of the loop"
      $stderr.write("gyre: unhandled in #{what}: #{error.full_message(highlight: false).chomp}\n")
    end

    # Reports the same way, but only once in a row, however often the loop is idle.
    # @param text [String]
    # @api private
    def report_once(text)
      $stderr.write(text) unless text == @reported
      @reported = text
    end

    # The waiting and ready fibers of this scheduler. From any thread.
    # @param classes [Array<Module>, nil] only waits for an object of one of these
    # @return [Array<Inspection::Wait>]
    def waits(classes = nil)
      list_waits(classes).map { |values| Inspection::Wait.new(*values) }
    end

    # @return [Array<Run>] present calls of Gyre.run
    # @api private
    def runs
      @runs ||= []
    end

    # Records an exception that Thread#raise is about to send to this thread
    # (scheduler/thread_raise.rb). From any thread.
    # @param error [Exception]
    # @api private
    def note_for_thread(error)
      (@for_thread ||= ObjectSpace::WeakMap.new)[error] = true
    end

    # @param error [Exception]
    # @return [Boolean, nil] whether it was meant for the caller of Gyre.run
    # @api private
    def for_thread?(error)
      @for_thread&.key?(error)
    end

    # For the engines: an exception has ended a fiber without a task.
    # @param error [Exception]
    # @param fiber [Fiber, nil]
    # @api private
    def fiber_failed(error, fiber)
      for_thread?(error) && runs.any? ? runs.first.leave(error) : report(error, fiber)
    end

    # @return [Watchdog, nil]
    attr_reader :watchdog

    # @api private
    def watchdog=(watchdog)
      @watchdog = watchdog
      self.suspicious = !watchdog.nil?
    end

    # For the engines, after an idle time (see {Inspection::Deadlock.refuse}).
    # @api private
    def refuse_deadlock(certain)
      Inspection::Deadlock.refuse(self, certain)
    end

    # Called by the engines' timeout_after when its error leaves its block: returns a cancellation
    # that the error must not replace. A stop may unwind the block and wait in an `ensure` when the
    # time ends: Ruby then raises the error with the stop as its cause, and a program that rescues
    # the error would continue as if never stopped. Ignores a cancellation from before the block, as
    # in an `ensure`: cleaning up may have a time limit of its own.
    # @param error [Exception] the timeout's own
    # @param before [Exception, nil] what was on its way when the block began
    # @return [Stop, Task::Expired, nil] the cancellation that it has replaced in the block
    # @api private
    def cancellation_in(error, before)
      return if error.respond_to?(:cancels?) # the end of a deadline: Gyre::Deadline decides itself

      while (error = error.cause) && !error.equal?(before)
        return error if error.respond_to?(:cancels?) && error.cancels?
      end
    end

    # For tasks of the gem Async on this scheduler.
    # @api private
    def_delegators :async_guests, :add_child, :async, :resume, :transfer, :push, :with_timeout, :load

    # @return [String]
    def inspect
      "#<#{self.class} #{closed? ? "closed" : backend}>"
    end

    # True if the thread is killed, or a signal's exception is propagating: a closing scheduler then
    # waits for nothing.
    # @return [Boolean]
    def leaving?
      Thread.current.status == "aborting" || $!.is_a?(SignalException)
    end

    # Resolves a host name (Fiber::Scheduler#address_resolve): by {HostNames}, else in a thread.
    # @param hostname [String] may have a scope, "fe80::1%eth0", which is ignored
    # @return [Array<String>, nil] addresses, nil when there are none
    def address_resolve(hostname)
      require "socket" unless defined?(Addrinfo) # Ruby 3.1 can require nothing in a Ractor
      hostname = hostname.split("%", 2).first
      found = HostNames.resolve(hostname) and return (found unless found.empty?)

      Offload.call do
        Addrinfo.getaddrinfo(hostname, nil, nil, :STREAM).map(&:ip_address).uniq
      rescue SocketError
        nil # unknown host: Ruby's own error follows
      end
    end

    # Quick calls that Ruby passes here from 3.4 on, besides calls that take long: each close, open,
    # stat and directory entry. A thread would cost far more (30 µs), and let other fibers run in
    # each of them. Opens that may wait are handled elsewhere (scheduler/waiting_path.rb); the
    # exceptions copy whole files, or look up a user's home, which may ask a server.
    QUICK_WORK = /\A(?!IO\.copy_stream|File\.expand_path|Dir\.home)(?:IO|File|FileTest|Dir|Kernel)(?:::\w+)*[.#]/.freeze
    # A subclass may override the hook: the names of such frames between the hook and its caller,
    # and the most frames to look at.
    OVERRIDE = %w[blocking_operation_wait bind_call].freeze
    OVERRIDES_LIMIT = 8
    private_constant :QUICK_WORK, :OVERRIDE, :OVERRIDES_LIMIT

    # Runs blocking or long work in a thread, such as Zlib's
    # (Fiber::Scheduler#blocking_operation_wait).
    # @param work [#call]
    def blocking_operation_wait(work)
      caller = caller_locations(1, OVERRIDES_LIMIT).find { |place| !OVERRIDE.include?(place.base_label) }
      return Fiber.blocking { work.call } if caller&.label&.match?(QUICK_WORK)

      Offload.call(abandon: false) { work.call }
    end

    # Waits for a child process in a thread; called by the engines' process_wait.
    # @return [Process::Status]
    def process_wait_in_thread(pid, flags)
      return Process::Status.wait(pid, flags) unless (flags & Process::WNOHANG).zero?

      Offload.call(abandon: :seen) { Process::Status.wait(pid, flags) } # otherwise it might still take the status from the next one
    end

    private

    def async_guests
      @async_guests ||= AsyncGuests.new(self)
    end
  end
end

require_relative "scheduler/condition_wait"
require_relative "scheduler/copy_stream"
require_relative "scheduler/file_lock"
require_relative "scheduler/host_names"
require_relative "scheduler/mutex_sleep"
require_relative "scheduler/pacing"
require_relative "scheduler/positioned_write"
require_relative "scheduler/record_lock"
require_relative "scheduler/tcp_socket"
require_relative "scheduler/thread_raise"
require_relative "scheduler/waiting_path"
require_relative "scheduler/portable"
Gyre::Loop.native?
