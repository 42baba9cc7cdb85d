# frozen_string_literal: true

# One run of a web server, from its start to an orderly end. Made by Gyre::Web::Server.
#
#   :waiting ── run ──► :serving ── stop, INT, TERM ──► :draining ── all served ──► ended
#                          │                              │ time over: cancelled ──►  │
#                          ├── stop_now ──────────────────┴── second signal ─────────►┤
#                          └── an exception ends the run ──► :broken ────────────────►┘
#
# If the server has started the loop, the app's remaining fibers (Fiber.schedule, Async) are
# cancelled at the end.

require "gyre/clock"
require "gyre/settings/units"
require "gyre/signals"
require "gyre/web/signals/commands"

module Gyre
  module Web
    class Lifetime
      # Maximum seconds for cancelled fibers of the app to end.
      UNWIND_S = 1.0

      # Calls all steps in order, even if one raises.
      def self.each_of(step, *others)
        step.call
      ensure
        each_of(*others) if others.any?
      end

      attr_reader :scheduler # nil before it runs

      # `signals` that stop the server: an Array of names; true: INT and TERM; false: none; nil: INT
      # and TERM if the server runs on the main thread. `hang_up` reopens and reloads files.
      # `abandon` is called last, if cancelled requests continue.
      def initialize(log:, shutdown_timeout_s:, signals:, before_stop:, hang_up:, abandon:)
        @log = log
        @shutdown_timeout_s = shutdown_timeout_s
        @signals = signals
        @before_stop = before_stop
        @hang_up = hang_up
        @abandon = abandon
        @commands = Commands.new
        @phase = :waiting
        @began_s = Clock.now
      end

      # Requests :stop, :stop_now or :hang_up. Any thread or signal handler may call it.
      def post(message) = @commands.post(message)

      def stopping? = @phase == :draining

      def uptime_s = Clock.now - @began_s

      # Yields on the loop, serves until a stop, and calls `finish` on the loop.
      def run(http, listening, finish:)
        @http = http
        @listening = listening
        handle_signals do
          in_task do
            @phase = :serving
            @scheduler = Fiber.scheduler
            @commands.start
            yield
            serve
            served = true
          ensure
            Lifetime.each_of(-> { @commands.stop }, -> { break_off unless served }, finish)
          end
        end
      ensure
        @commands.stop
      end

      private

      # Runs the block in the current task, or in a Gyre.run if there is none. Starts no child in
      # the current task, because a stop ends children before their parent.
      def in_task(&block)
        return block.call if Task.current?

        Gyre.run do |task|
          block.call
        ensure
          cancel_fibers(task)
        end
      end

      # Cancels the app's fibers, because an endless one would keep the process alive.
      def cancel_fibers(task)
        first = true
        deadline = Clock.now + UNWIND_S
        loop do
          others = @scheduler.waits.map(&:fiber) - [Fiber.current, task.fiber]
          return if others.empty?

          others.each { |fiber| @scheduler.fiber_interrupt(fiber, Gyre::Stop.new("the server has stopped")) } if first
          first = false
          return give_up("#{others.size} cancelled fibers of the app go on") if Clock.now > deadline

          sleep(0.01)
        end
      end

      # The first signal lets requests finish, the second cancels them, and a later one raises
      # Interrupt. Each signal starts a watch (Commands#watch), because an app that computes blocks
      # the loop.
      def handle_signals(&block)
        return yield unless @signals.nil? ? Thread.current == Thread.main : @signals

        names = @signals.is_a?(Array) ? @signals : %w[INT TERM]
        count = 0
        thread = Thread.current
        on_signal = lambda do |name|
          count += 1
          raise Interrupt, name if count > 2 || @phase == :broken

          post(count > 1 ? :stop_now : :stop)
          @commands.watch(thread, count > 1 ? 0 : @shutdown_timeout_s) { |event| not_heard(event) }
        end
        Signals.handle(names, on_signal) { TaskSignal.handle { names.include?("INT") ? heed_hang_up(&block) : yield } }
      end

      # HUP is a request to reopen logs, or comes from the kernel when the terminal ends. Keeps a
      # handler of HUP that the program has set.
      def heed_hang_up(&block)
        return yield unless Terminal.handler == "DEFAULT"

        terminal = Terminal.new
        Signals.handle(%w[HUP], ->(_name) { post(terminal.ended? ? :stop : :hang_up) }, &block)
      end

      # Called in the watch's thread.
      def not_heard(event)
        return give_up("a request that computes goes on") if event == :still

        @log.error("a request computes and keeps the server from stopping; it is cancelled")
        post(:stop_now)
      end

      def take = @commands.take.tap { |message| @hang_up.call if message == :hang_up }

      def serve
        message = take until %i[stop stop_now].include?(message)
        gently = message == :stop
        @phase = :draining
        @before_stop&.call
        quit_listening
        @log.info(gently ? farewell : "Stopping at once")
        ending = shutdown(gently ? @shutdown_timeout_s : 0)
        until (message = take) == :ended
          next unless message == :stop_now

          ending.stop
          ending = shutdown(0)
          @log.info("Stopping at once")
        end
        @log.info(ending.wait ? "Stopped" : "Stopped. What still ran was cancelled")
        give_up_requests
      end

      # Ends the run and its requests after an exception, or when the task is stopped.
      def break_off
        @phase = :broken
        quit_listening
        @http.shutdown(0)
        give_up_requests
      end

      def give_up_requests
        running = @http.stats[:running]
        give_up("#{running} cancelled requests go on") if running.positive?
      end

      # Calls `abandon`, because cancelled fibers continue and Ruby cannot end them.
      def give_up(what)
        @log.error("#{what}; an app must not rescue Gyre::Stop without raising it again")
        @abandon.call
      end

      # Returns a task; its value is true if no request was cancelled.
      def shutdown(timeout_s)
        Task.current.async("shutdown") do
          @http.shutdown(timeout_s)
        ensure
          post(:ended)
        end
      end

      def farewell
        count = @http.stats[:running] - @http.endless
        return "Stopping" unless count.positive?

        "Stopping. #{Units.count(count, "request")} may finish within #{@shutdown_timeout_s} s; Ctrl-C again stops at once"
      end

      def quit_listening
        @listening.refuse
        @http.stop
        @listening.close
      end
    end
  end
end
