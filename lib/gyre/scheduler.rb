# frozen_string_literal: true

# Gyre::Scheduler: Ruby's Fiber::Scheduler on Gyre's loop. Made by Gyre.run, or by a program for
# Fiber.set_scheduler; may be subclassed. This file serves both engines. ext/gyre/fiber adds the
# native engine's hooks, Gyre::Scheduler::Portable those of the portable engine.
require "forwardable"
require_relative "errors"
require_relative "loop"
require_relative "clock"
require_relative "inspection"
require_relative "offload"
require_relative "scheduler/async_guests"
require_relative "scheduler/fiber_raise"
require_relative "scheduler/fork"
require_relative "scheduler/interrupt_masks"
require_relative "scheduler/io_buffer"
require_relative "scheduler/job"
require_relative "scheduler/pooled_fiber"

module Gyre
  # A thread's Fiber::Scheduler.
  class Scheduler
    extend Forwardable

    # Makes a scheduler with its own loop.
    # @param backend [String, Symbol, nil] one of {availables}; nil: GYRE_BACKEND, or the best
    # @raise [ArgumentError] an unknown backend
    # @raise [RuntimeError, SystemCallError] the backend is not built, or the kernel refuses it
    def initialize(backend = nil) = Loop.on_backend(backend) { |engine, name| engine == :native ? open_native(name) : Portable.open(self) }

    # Runs the remaining work, or stops it after an exception, then removes this thread's scheduler.
    # @api private
    def self.leave(failed)
      Fiber.scheduler&.instance_variable_set(:@leaving, failed) # none if the program has removed it
      Fiber.set_scheduler(nil)
    ensure
      Fiber.set_scheduler(nil) if Fiber.scheduler # Ruby 3.1 keeps it after an exception
    end

    # @return [Array<String>] this machine's backends, the best first, such as ["epoll", "select"]
    def self.availables = Loop.availables

    # Reports an exception that ended a fiber. May be overridden.
    # @param error [Exception]
    # @param fiber [Fiber]
    def report(error, fiber)
      $stderr.write("gyre: unhandled in #{fiber.inspect}: #{error.full_message(highlight: false).chomp}\n")
    end

    # Reports a text unless the last report had the same text.
    # @param text [String]
    # @api private
    def report_once(text)
      $stderr.write(text) unless text == @reported
      @reported = text
    end

    # Returns waiting and ready fibers. Any thread may call it.
    # @param classes [Array<Module>, nil] selects waits by the awaited object
    # @return [Array<Inspection::Wait>]
    def waits(classes = nil) = list_waits(classes).map { |values| Inspection::Wait.new(*values) }

    # @return [Hash{String => Hash{Symbol => Integer, Float}}] see {Loop.usage}
    # @api private
    def usage
      rows = is_a?(Portable) ? [] : usage_rows
      rows.to_h { |label, *values| [label.dup.force_encoding(Encoding::UTF_8).scrub, USAGE.zip(values).to_h] }
    end

    USAGE = %i[requests cpu_s blocked_s longest_s allocations].freeze
    private_constant :USAGE

    # @return [Array<Run>] present calls of Gyre.run
    # @api private
    def runs = @runs ||= []

    # Called by ThreadRaise, in any thread, when Thread#raise is about to send an exception.
    # @param error [Exception]
    # @api private
    def note_for_thread(error) = (@for_thread ||= ObjectSpace::WeakMap.new)[error] = true

    # @param error [Exception]
    # @return [Boolean, nil] whether Gyre.run raises it to its caller
    # @api private
    def for_thread?(error) = @for_thread&.key?(error)

    # Called when an exception has ended a fiber that runs no task.
    # @param error [Exception]
    # @param fiber [Fiber]
    # @api private
    def fiber_failed(error, fiber) = for_thread?(error) && runs.any? ? runs.first.leave(error) : report(error, fiber)

    # @return [Watchdog, nil]
    attr_reader :watchdog

    # @api private
    def watchdog=(watchdog)
      @watchdog = watchdog
      self.suspicious = !watchdog.nil?
    end

    # Called by the engines, see {Inspection::Deadlock.refuse}.
    # @api private
    def refuse_deadlock(certain) = Inspection::Deadlock.refuse(self, certain)

    # Returns the cancellation that a timeout's error must not replace. Called by timeout_after. A
    # stop may just be unwinding the block, and waiting in an `ensure`, when the time ends. Ruby
    # then raises the timeout's error with the stop as its cause, and a program that rescues the
    # error would continue unstopped. Ignores cancellations from before the block, as cleaning up
    # may have its own time limit.
    # @param error [Exception] the timeout's
    # @param before [Exception, nil] propagating when the block began
    # @return [Stop, Task::Expired, nil] replaced in the block
    # @api private
    def cancellation_in(error, before)
      return if error.respond_to?(:cancels?) # the end of a deadline: Gyre::Deadline decides itself

      while (error = error.cause) && !error.equal?(before)
        return error if error.respond_to?(:cancels?) && error.cancels?
      end
    end

    # For the gem Async's tasks.
    # @api private
    def_delegators :async_guests, :add_child, :async, :resume, :transfer, :push, :with_timeout, :load

    # @return [String]
    def inspect = "#<#{self.class} #{closed? ? "closed" : backend}>"

    # Methods of a close, and of overrides of one.
    CLOSING = %w[leaving? scheduler_close close bind_call].freeze
    private_constant :CLOSING

    # True if the thread is killed, or if an exception ends the program, the thread, the forked
    # block or Gyre.run. The scheduler then stops the fibers instead of waiting for their ends.
    # @return [Boolean]
    def leaving?
      return true if @leaving || Thread.current.status == "aborting" || $!.is_a?(SignalException)
      return false unless $!

      # Not `find`: up to Ruby 3.4 its break clears $!, which hooks of at_exit are to see.
      caller = caller_locations.reject { |place| CLOSING.include?(place.base_label) }.first
      caller.nil? || caller.base_label == "fork"
    end

    # Resolves a host name (Fiber::Scheduler#address_resolve) by {HostNames}, otherwise in a thread.
    # @param hostname [String] ignores a scope, "fe80::1%eth0"
    # @return [Array<String>, nil] addresses, or nil
    def address_resolve(hostname)
      require "socket" unless defined?(Addrinfo) # Ruby 3.1 can require nothing in a Ractor
      hostname = hostname.split("%", 2).first
      found = HostNames.resolve(hostname) and return (found unless found.empty?)

      Offload.call do
        Addrinfo.getaddrinfo(hostname, nil, nil, :STREAM).map(&:ip_address).uniq
      rescue SocketError => error
        raise if error.respond_to?(:error_code) ? error.error_code == Socket::EAI_AGAIN : error.message.match?(/temporary/i)

        nil # unknown host: Ruby's own error follows
      end
    end

    # Matches callers of quick work, which Ruby from 3.4 on also passes to blocking_operation_wait:
    # each close, open, stat and read of a directory entry. A thread would cost 30 µs. The excluded
    # methods copy files, or may ask a server for a home folder.
    QUICK_WORK = /\A(?!IO\.copy_stream|File\.expand_path|Dir\.home)(?:IO|File|FileTest|Dir|Kernel)(?:::\w+)*[.#]/.freeze
    # Methods whose frames may stand between the hook and its caller.
    OVERRIDE = %w[blocking_operation_wait bind_call].freeze
    OVERRIDES_LIMIT = 8 # frames to look at
    private_constant :QUICK_WORK, :OVERRIDE, :OVERRIDES_LIMIT

    # Runs blocking work in a thread (Fiber::Scheduler#blocking_operation_wait), such as Zlib's.
    # @param work [#call]
    def blocking_operation_wait(work)
      caller = caller_locations(1, OVERRIDES_LIMIT).find { |place| !OVERRIDE.include?(place.base_label) }
      return Fiber.blocking { work.call } if caller&.label&.match?(QUICK_WORK)

      Offload.call(abandon: false) { work.call }
    end

    # @return [Process::Status]
    def process_wait_in_thread(pid, flags)
      return Process::Status.wait(pid, flags) unless (flags & Process::WNOHANG).zero?

      Offload.call(abandon: :seen) { Process::Status.wait(pid, flags) } # otherwise it might still take the status from the next one
    end

    private

    # Called by the engines' run. A task would wait for its own end, and so would a fiber that a
    # scheduled fiber has resumed (`inner`).
    def refuse_run(inner)
      return unless inner || Thread.current[:gyre_task]

      raise Error, "Scheduler#run waits for the end of all fibers, and it was called in one of them: " \
                   "call it outside of tasks, or wait for single tasks by Task#wait"
    end

    def async_guests = @async_guests ||= AsyncGuests.new(self)
  end
end

require_relative "scheduler/condition_wait"
require_relative "scheduler/host_names"
require_relative "scheduler/pacing"
require_relative "scheduler/waiting_path"
require_relative "scheduler/portable"
Gyre::Loop.native?
