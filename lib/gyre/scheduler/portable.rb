# frozen_string_literal: true

# Gyre::Scheduler::Portable: fiber scheduler hooks in plain Ruby over IO.select. Used if the C
# extension is missing or GYRE_BACKEND is select. portable/fibers.rb switches fibers,
# loop/portable.rb asks the kernel. Behaves like the native twins in ext/gyre/fiber.
require "fcntl"
require "forwardable"
require_relative "../loop/overrides"
require_relative "../loop/portable"
require_relative "portable/expiry"
require_relative "portable/fibers"

module Gyre
  class Scheduler
    module Portable
      extend Forwardable

      # Maximum rounds of stopping fibers at the end, and maximum seconds of each round.
      UNWIND_ROUNDS = 3
      UNWIND_TIMEOUT_S = 1
      # Whether the hook io_read is defined. If it is not, Ruby calls io_wait when a read would
      # block. Then a read from a blocking descriptor (an inherited stdin) stops the loop, and
      # before Ruby 4.0 a close by another fiber raises in the read or crashes. Ruby 3.2.5 has a
      # broken interface.
      READS = RUBY_ENGINE == "ruby" && RUBY_VERSION != "3.2.5"
      # Whether io_write is defined. Before Ruby 3.3.1 its buffer can lose its lock (bug 19640).
      WRITES = READS && RUBY_VERSION >= "3.3.1"
      # Ruby 4.1 passes an offset and a maximum to io_read and io_write, earlier versions a minimum
      # and an offset. Untested on 4.1.
      BOUNDED = IO.const_defined?(:Buffer) && IO::Buffer.const_defined?(:VERSION) && IO::Buffer::VERSION >= 3
      AGAIN = -Errno::EAGAIN::Errno
      # Bytes that a ready pipe takes without waiting: POSIX's minimum of PIPE_BUF.
      PIPE_BYTES = 512

      def self.open(scheduler)
        Loop::Overrides.install(scheduler, self, Scheduler)
        scheduler.__send__(:open_loop)
      end

      def event_loop = @loop

      # Runs callable.call(*arguments), or the block, in a fiber; returns at the fiber's first wait.
      def spawn(callable = nil, *arguments, &block)
        open!
        @fibers.spawn(callable || block || raise(ArgumentError, "spawn what? neither callable nor block given"), arguments, {})
      end

      # Fiber::Scheduler#fiber, for Fiber.schedule: a new fiber, which ends with the block.
      def fiber(*arguments, **options, &block)
        open!
        @fibers.spawn(block, arguments, options)
      end

      # Runs the other ready fibers first (Fiber::Scheduler#yield).
      def yield
        @fibers.requeue
        nil
      end

      def block(blocker, timeout = nil)
        waiter = @fibers.waiter(blocks: true, blocker: blocker)
        waiter.strand.take_early(blocker) || park(waiter, timeout)
      end

      # Makes a blocked fiber ready (Fiber::Scheduler#unblock). If the fiber has not parked yet, its
      # next block returns at once. Any thread may call it.
      def unblock(blocker, fiber) = (@fibers.inbox.unblock(fiber, blocker) unless @closed)

      # Called by Kernel#sleep and Mutex#sleep (Fiber::Scheduler#kernel_sleep). For 0 seconds, lets
      # all ready fibers run first.
      def kernel_sleep(duration = nil)
        if duration && seconds(duration).zero?
          @fibers.requeue
        else
          block(:sleep, duration)
        end
        true
      end

      def_delegators :@fibers, :expect_signal, :signalled?

      # Raises an exception in a fiber at its present or next wait
      # (Fiber::Scheduler#fiber_interrupt). Any thread may call it.
      def fiber_interrupt(fiber, exception) = (@fibers.inbox.interrupt(fiber, exception) unless @closed)

      # Runs the block with a time limit (Fiber::Scheduler#timeout_after, for Timeout.timeout).
      def timeout_after(duration, *exception)
        return yield(duration) if duration.nil?

        require "timeout" unless exception.first || defined?(::Timeout::Error)
        exception = [::Timeout::Error, *(exception[1..] || "execution expired")] unless exception.first
        expiry = Expiry.new(@fibers.inbox, Fiber.current, exception)
        timer = @loop.timers.after(duration, expiry)
        begin
          run_until_expiry(expiry) { yield duration }
        ensure
          timer.cancel
          expiry.withdraw
        end
      end

      def io_wait(io, events, timeout = nil)
        own_timeout = io.timeout if timeout.nil? && io.respond_to?(:timeout)
        waiter = @fibers.waiter(blocker: io)
        waiter.watch = watch = @loop.watch(io, events, waiter)
        ready = park(waiter, timeout || own_timeout)
        raise IO::TimeoutError, "no #{events == IO::WRITABLE ? "room to write" : "data"} within #{own_timeout} s" unless ready || !own_timeout

        ready
      ensure
        watch&.cancel
      end

      def io_select(readables = nil, writables = nil, exceptionals = nil, timeout = nil)
        deadline = timeout && (Loop::Timers.now + timeout)
        until (ready = Loop::Select.blocking { IO.select(readables, writables, exceptionals, 0) })
          timeout = [deadline - Loop::Timers.now, 0].max if deadline
          return self.yield if timeout&.zero? # a program may ask until another fiber has done its part

          wait_for_any([readables, writables, exceptionals],
                       { IO::READABLE => readables, IO::WRITABLE => writables, IO::PRIORITY => exceptionals }, timeout)
        end
        ready
      end

      if READS
        def io_read(io, buffer, *bounds)
          @fibers.end_turn if @fibers.slice_over? && !called_by?("_nonblock")
          buffer, length, offset = least(buffer, *bounds)
          count = transfer_bytes(io, IO::READABLE, length, offset) { |start, _| read_once(io, buffer, start) }
          return count unless count == AGAIN && called_by?("sysread")

          # IO#sysread would raise EAGAIN instead of waiting.
          transfer_bytes(io, IO::READABLE, 1, offset) { |start, _| read_once(io, buffer, start) }
        end
      end

      if WRITES
        def io_write(io, buffer, *bounds)
          @fibers.end_turn if @fibers.slice_over? && !called_by?("_nonblock")
          buffer, length, offset = least(buffer, *bounds)
          transfer_bytes(io, IO::WRITABLE, length, offset) { |start, waits| write_once(io, buffer, start, waits) }
        end
      end

      # Undefines methods that only the native engine has; Ruby works without those that are hooks.
      (%i[io_read io_write io_pread io_pwrite io_close simulate virtual_now outside call_later] - instance_methods).each do |hook|
        define_method(hook) { nil }
        undef_method(hook)
      end

      def process_wait(pid, flags) = process_wait_in_thread(pid, flags)

      # Drives the loop until no other fiber waits or is ready.
      def run
        open!
        refuse_run(@fibers.inner?) if Fiber.current_scheduler
        run_all
      end

      # Drives the loop until the block returns true. Calls the block at least once a turn.
      def run_until
        open!
        @fibers.drive { yield }
        self
      end

      def loop_running? = @fibers.driven?

      # Ends the loop's present or next wait. Any thread or trap handler may call it.
      def wakeup
        @loop.wake
        nil
      end

      # Runs the remaining fibers and closes the loop. Called at the thread's end or before another
      # scheduler is set (Fiber::Scheduler#scheduler_close).
      def scheduler_close
        return if @closed

        @fibers.check_thread
        # Runs in another fiber, as a rescue here would clear the exception that ends the thread.
        waits = !leaving?
        Fiber.new(blocking: true) { run_and_close(waits) }.resume
        @fibers.raise_deferred if waits
      end
      alias close scheduler_close

      def closed? = @closed

      def backend = Loop::Select::NAME

      def_delegators :@fibers, :stats, :list_waits, :waiting_in, :working?, :job, :ask, :pulse, :suspicious=, :pace

      # Called in a forked child: only the forking fiber continues, on a new loop.
      def process_fork
        return if @closed

        process_move
        @loop.reopen
        @fibers.forget
      end

      # Called in a daemon. Notes that Ruby takes the forking fiber for the thread's root. The loop
      # stays, as IO.select keeps nothing in the kernel.
      def process_move = Thread.current.thread_variable_set(:gyre_forker, Fiber.current)

      private

      def open_loop
        @loop = Loop::Portable.new
        @fibers = Fibers.new(self, @loop)
        @closed = false
      end

      def park(waiter, timeout)
        waiter.timer = timer = @loop.timers.after(timeout, waiter) if timeout
        @fibers.park(waiter)
      ensure
        timer&.cancel
      end

      def run_all
        @fibers.drive { |drive| @fibers.none_but?(drive) }
        self
      end

      # `waits`: whether the remaining fibers run to their end.
      def run_and_close(waits)
        run_all if waits
      ensure
        begin
          unwind
        ensure
          @closed = true
          @loop.close
        end
      end

      def unwind
        UNWIND_ROUNDS.times do
          break unless @fibers.stop_all

          over = false
          timer = @loop.timers.after(UNWIND_TIMEOUT_S, -> { over = true })
          @fibers.drive { |drive| over || @fibers.none_but?(drive) }
          timer.cancel
        end
      end

      def run_until_expiry(expiry)
        before = $!
        begin
          return yield
        rescue Exception => error # rubocop:disable Lint/RescueException -- raised again, unless it has replaced a stop
          cancellation = cancellation_in(error, before) if error.equal?(expiry.error)
          raise unless cancellation
        end
        raise cancellation # outside of the rescue, or they would be each other's causes
      end

      def seconds(duration)
        raise TypeError, "can't convert #{duration.class} into time interval" unless duration.is_a?(Numeric)
        raise ArgumentError, "time interval must not be negative" unless duration >= 0

        duration
      end

      def wait_for_any(blocker, ios, timeout)
        waiter = @fibers.waiter(blocker: blocker)
        watches = ios.flat_map { |events, list| list.to_a.map { |io| @loop.watch(io.to_io, events, waiter) } }
        park(waiter, timeout)
      ensure
        watches&.each(&:cancel)
      end

      def open!
        raise "the scheduler is closed" if @closed
      end

      # Returns the buffer, the minimum length and the offset.
      def least(buffer, first, second = 0) = BOUNDED ? [buffer.slice(first, second), 0, 0] : [buffer, first, second]

      def transfer_bytes(io, events, length, offset)
        total = 0
        loop do
          waits = !nonblocking?(io)
          wait_unless_ready(io, events) if waits
          count = yield(offset + total, waits)
          if count.positive?
            total += count
            return total if total >= length
          elsif count == AGAIN && length.positive?
            io_wait(io, events, nil)
          else
            return total.positive? ? total : count
          end
        end
      end

      # True if a method whose name has this suffix called the hook, perhaps through a subclass's
      # overrides. A `_nonblock` method must not wait, `sysread` must.
      def called_by?(suffix)
        caller_locations(2, 8).find { |place| !%w[io_read io_write bind_call].include?(place.base_label) }&.label.to_s.end_with?(suffix)
      end

      # A descriptor in blocking mode must be ready before it is used.
      def wait_unless_ready(io, events)
        ios = [io]
        ready = Loop::Select.blocking { events == IO::READABLE ? IO.select(ios, nil, nil, 0) : IO.select(nil, ios, nil, 0) }
        io_wait(io, events, nil) unless ready
      end

      # Writes at most PIPE_BYTES to a ready pipe or socket in blocking mode, as more could wait.
      def write_once(io, buffer, offset, waits)
        bounded = waits && buffer.size - offset > PIPE_BYTES && !io.stat.file?
        part = bounded ? buffer.slice(offset, PIPE_BYTES) : buffer
        Fiber.blocking { part.write(io, 0, bounded ? 0 : offset) }
      end

      # Avoids io/nonblock, which Ruby 3.1 forbids in a Ractor.
      def nonblocking?(io)
        (io.fcntl(Fcntl::F_GETFL) & File::NONBLOCK).positive?
      rescue NotImplementedError # Windows: every descriptor is asked for readiness
        false
      end

      if Fiber.respond_to?(:blocking)
        def read_once(io, buffer, offset) = Fiber.blocking { buffer.read(io, 0, offset) }
      else # Ruby 3.1, without an offset
        def read_once(io, buffer, _offset) = Fiber.new(blocking: true) { buffer.read(io, buffer.size) }.resume
      end
    end
  end
end
