# frozen_string_literal: true

# One run of a web server. Made by Gyre::Web::Server. Its stop lets requests finish; what still runs
# then is cancelled.
#
# If the server has started the loop, the app's remaining fibers (Fiber.schedule, Async) are
# cancelled at the end.

require "gyre/lifetime"
require "gyre/settings/units"

module Gyre
  module Web
    class Lifetime < Gyre::Lifetime
      attr_reader :scheduler # nil before it runs

      # `signals` that stop the server: an Array of names; true: INT and TERM; false: none; nil: INT
      # and TERM if the server runs on the main thread. `hang_up` reopens and reloads files.
      # `abandon` is called last, if cancelled requests continue.
      def initialize(log:, shutdown_timeout_s:, signals:, before_stop:, manager:, hang_up:, abandon:)
        super("main", signals: signals, manager: manager)
        @log = log
        @shutdown_timeout_s = shutdown_timeout_s
        @before_stop = before_stop
        @hang_up = hang_up
        @abandon = abandon
        @count = 0
      end

      # Yields on the loop, serves until a stop, and calls `finish` on the loop.
      def run(http, listening, finish:, &start)
        @http = http
        @listening = listening
        @finish = finish
        @thread = Thread.current
        super(&start)
      end

      private

      def in_task
        super do
          @scheduler = Fiber.scheduler
          yield
        end
      end

      def cancels? = true

      # Keeps a handler of HUP that the program has set.
      def handle_signals(&block)
        @signals = %w[INT TERM] if @signals.nil? ? Thread.current == Thread.main : @signals == true
        if @signals && @signals.include?("INT") && Terminal.handler == "DEFAULT"
          @terminal = Terminal.new
          @signals += ["HUP"]
        end
        super
      end

      # The first signal lets requests finish, the second cancels them, and a later one raises
      # Interrupt. Each signal starts a watch (Commands#watch), because an app that computes blocks
      # the loop.
      def on_signal(name)
        return super if name == "HUP" && @terminal

        @count += 1
        raise Interrupt, name if @count > 2 || @phase == :broken

        stop(now: @count > 1)
        @commands.watch(@thread, @count > 1 ? 0 : @shutdown_timeout_s) { |event| not_heard(event) }
      end

      def hasty? = false

      # Called in the watch's thread.
      def not_heard(event)
        return give_up("a request that computes goes on") if event == :still

        @log.error("a request computes and keeps the server from stopping; it is cancelled")
        stop(now: true)
      end

      def on_start(&start) = start.call

      def on_reload = reloading(&@hang_up)

      def on_stop(now)
        @before_stop&.call
        quit_listening
        @log.info(now ? "Stopping at once" : farewell)
        @ending = shutdown(now ? 0 : @shutdown_timeout_s)
      end

      def on_stop_now
        @ending.stop
        @ending = shutdown(0)
        @log.info("Stopping at once")
      end

      def on_ended
        @log.info(@ending.wait ? "Stopped" : "Stopped. What still ran was cancelled")
        give_up_requests
      end

      def on_finish = Lifetime.each_of(-> { break_off if @phase == :broken }, @finish)

      # Ends the run and its requests after an exception, or when the task is stopped.
      def break_off
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
