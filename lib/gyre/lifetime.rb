# frozen_string_literal: true

# One run of a server, from its start to an orderly end: signals, commands, the service manager.
# Web, log and DNS server and the first process of workers are subclasses with the contract's
# methods.
#
#   :waiting ── run ──► :serving ── stop, INT, TERM ──► :stopping ── :ended is posted ──► :ended
#                          │                              ▲  │ stop_now, or a second stop: at once
#                          ├── stop_now ──────────────────┘
#                          └── an exception ends the run ──► :broken

require "gyre/lifetime/commands"
require "gyre/run"

module Gyre
  # The contract; all are called on the loop, one after another.
  #
  #   on_start      begins to serve (`serving`), and calls the block once it does
  #   on_stop(now)  begins the end, and posts :ended after it
  #   on_stop_now   lets the end that on_stop has begun come at once
  #   on_ended      is called after :ended
  #   on_reload     reads files again
  #   on_finish     releases everything; also called after an exception (:broken)
  #   on_restart, on_rolling_restart, on_grow, on_shrink, on_reap   where the server has such
  class Lifetime
    # Steps of the contract by signal. A server handles the signals of the steps that it has.
    SIGNALS = { "INT" => :stop, "TERM" => :stop, "HUP" => :reload, "USR1" => :rolling_restart, "USR2" => :restart, "TTIN" => :grow,
                "TTOU" => :shrink, "CHLD" => :reap }.freeze

    # Maximum seconds for cancelled fibers to end.
    UNWIND_S = 1.0

    # Calls all steps in order, even if one raises.
    def self.each_of(step, *others)
      step.call
    ensure
      each_of(*others) if others.any?
    end

    # `signals`: names of the handled signals besides QUIT; true: all of SIGNALS; false: none.
    # `manager` (ServiceManager) is told of reloads and of the end. `handover` has signals that came
    # before this program handled them. `terminal`: HUP stops the server if it has ended.
    def initialize(name, signals: true, manager: nil, handover: nil, terminal: nil)
      @name = name
      @signals = signals
      @manager = manager
      @handover = handover
      @terminal = terminal
      @commands = Commands.new
      @phase = :waiting
      @began_s = Clock.now
    end

    # Requests a step of the contract by its name. Any thread or signal handler may call it.
    def post(message) = @commands.post(message)

    def stop(now: false) = post(now ? :stop_now : :stop)

    def reload = post(:reload)

    def stopping? = @phase == :stopping

    def uptime_s = Clock.now - @began_s

    # Serves until a stop; yields on the loop once it serves.
    def run(&ready)
      handle_signals do
        in_task do
          @phase = :serving
          @commands.start
          @handover&.signal_again if @signals
          on_start(&ready)
          heed(@commands.take) until @phase == :ended
        ensure
          @phase = :broken unless @phase == :ended
          Lifetime.each_of(-> { @commands.stop }, -> { on_finish })
        end
      end
    ensure
      @commands.stop
    end

    private

    # Runs the block in the current task, or in a Gyre.run if there is none. Starts no child in the
    # current task for it, because a stop ends children before their parent.
    def in_task
      return yield if Task.current?

      Gyre.run(@name) do |task|
        yield
      ensure
        cancel_fibers(task) if cancels?
      end
    end

    # Whether the end of a run that has started the loop cancels what is left there.
    def cancels? = false

    # Cancels the application's fibers, because an endless one would keep the process alive.
    def cancel_fibers(task)
      first = true
      deadline = Clock.now + UNWIND_S
      loop do
        others = Fiber.scheduler.waits.map(&:fiber) - [Fiber.current, task.fiber]
        return if others.empty?

        others.each { |fiber| Fiber.scheduler.fiber_interrupt(fiber, Gyre::Stop.new("the server has stopped")) } if first
        first = false
        return give_up("#{others.size} cancelled fibers of the app go on") if Clock.now > deadline

        sleep(0.01)
      end
    end

    # Called if cancelled fibers continue.
    def give_up(_what); end

    def handle_signals(&block)
      return yield unless @signals

      names = @signals.is_a?(Array) ? @signals : SIGNALS.keys.select { |name| respond_to?(:"on_#{SIGNALS[name]}", true) }
      Signals.handle(names, method(:on_signal)) { TaskSignal.handle(print: method(:print_tasks), &block) }
    end

    # Called in the signal handler.
    def on_signal(name) = post(name == "HUP" && @terminal&.ended? ? :stop : SIGNALS.fetch(name))

    def print_tasks = TaskSignal.print

    def heed(message)
      case message
      when :stop, :stop_now then end_run(now: message == :stop_now)
      else send(:"on_#{message}")
      end
      @phase = :ended if message == :ended
    end

    def end_run(now:)
      return (on_stop_now if now || hasty?) if stopping?

      @phase = :stopping
      @restarting&.stop # else the next program would serve on
      @manager&.stopping
      on_stop(now)
    end

    # Whether a second stop is one at once.
    def hasty? = true

    # Tells the manager of a reload, which the block does.
    def reloading(&block) = @manager ? @manager.reloading(&block) : yield

    # Restarts by the block in a task; once more if asked meanwhile, because what the next program
    # reads may have changed since. Tells the manager.
    def restarting
      return if stopping?
      return @again = true unless @restarting.nil? || @restarting.finished?

      @restarting = Task.current.async("restart", transient: true) do
        loop do
          @again = false
          reloading { yield }
          break unless @again
        end
      end
    end

    # Runs the block, which serves to the server's end, in a task.
    def serving
      @serving = Task.current.async(@name) do
        yield
      ensure
        post(:ended)
      end
    end

    def on_ended; end

    def on_finish = @serving&.stop&.wait
  end
end
