# frozen_string_literal: true

# The first process of a server with workers: owns the listening sockets and never loads the app.
# Starts a *mold* (Gyre::Cluster::Mold), which forks the *workers*; replaces, restarts and ends
# processes. Made by Gyre::CLI::Serve; signals and `gyre ctl` call its public methods on its loop.
#
# Each event calls `reconcile`, which acts until all workers are there and are of the current mold.
#
#   rolling restart    a new mold loads the present code ─ it fails: nothing changes
#                      └ ready: for each worker: fork a successor ─ it serves: TERM to the worker ─ it has left: next
#                        the first successor dies: the new mold is dropped, the old one is current again
#                        later ones die, three times: the restart has failed; they are started again

require "gyre/core"
require "gyre/cluster/crew"
require "gyre/cluster/generations"
require "gyre/cluster/health"
require "gyre/cluster/program"
require "gyre/cluster/restarts"

module Gyre
  module Cluster
    # Keeps the processes in Crew, the molds in Generations and the restarts in Restarts.
    #
    #   :starting ─ all workers serve ─► :serving ─ stop ─► :stopping ─ stop again ─► :stopping_now
    #       └ the app does not load, a worker dies ──────────────────────────────────────►┘
    class Supervisor
      TICK_S = 0.5
      LOADER = "the process that loads the code"

      attr_reader :crew
      attr_reader :count # number of workers wanted
      attr_reader :failure # why it could not start
      attr_reader :restarts
      attr_reader :programs # run beside the workers

      # `spawn`: see Generations. `former`: a former program's {#to_h}, or nil. Calls `ready` when
      # all workers serve, and `restarted` after each restart. `figures`: see Crew; `limits`: see
      # Health.
      def initialize(count:, listeners:, spawn:, log:, figures:, shutdown_timeout: 30, former: nil, ready: nil, restarted: nil, beside: [],
                     spawn_program: nil, **limits)
        @count = count
        @listeners = listeners
        @log = log
        @shutdown_timeout_s = shutdown_timeout
        @ready = ready
        @health = Health.new(**limits)
        @restarts = Restarts.new(log, &restarted)
        @crew = Crew.new(log, self, figures)
        @generations = Generations.new(@crew, spawn)
        @phase = former ? :serving : :starting
        spawn = ->(words) { spawn_program.call(words, @crew.entrance) }
        program = ->(command) { Program.new(command, log: log, reaper: @crew.reaper, shutdown_timeout: shutdown_timeout, &spawn) }
        @programs = beside.map(&program)
        restore(former, program) if former
      end

      def workers = @crew.workers

      # Runs until {#stop}; yields first, on its loop. Returns false if the server could not
      # start, or if a worker was killed at the end.
      def run
        Gyre.run("supervisor") do |task|
          @over = Promise.new
          @crew.start(task)
          yield if block_given?
          @crew.listen
          @programs.each(&:watch)
          task.every(TICK_S, "clock") { tick }
          begin_restart(:hot) { load_again } if @phase == :serving
          reap
          @over.wait
        end
        !@failed
      end

      # Lets workers finish their requests, then ends. `now`, or a second call, ends them at once.
      def stop(now: false)
        now ||= @phase == :stopping
        return if @phase == :stopping_now

        unless @failed # {#failure} has the reason
          @log.info(now ? "Stopping at once" : "Stopping. Requests may finish within #{@shutdown_timeout_s} s; " \
                                               "Ctrl-C again stops at once")
        end
        @phase = now ? :stopping_now : :stopping
        @restarts.give_up("the server stops")
        quit_listening
        @crew.molds.each { |mold| dismiss(mold) }
        workers.each { |worker| now ? worker.hurry : worker.leave(@shutdown_timeout_s) }
        @programs.each { |program| program.stop(now: now) }
        reconcile
      end

      def stopping? = @phase == :stopping || @phase == :stopping_now

      # Loads the app's code again and replaces the workers one by one. Returns a Promise of nil,
      # or of the reason if the restart fails.
      def rolling_restart
        begin_restart(:rolling) do
          yield if block_given?
          load_again
        end
      end

      # Begins a restart now, or after the current restart.
      def begin_restart(kind, &block)
        return Restarts.refused("the server stops") if stopping?
        return @restarts.remember(kind, block) if @restarts.running?

        start_restart(@restarts.begin(kind), block)
      end

      # Changes the number of workers by `difference`; at least one worker stays.
      def resize(difference)
        @count = [@count + difference, 1].max
        @log.info("#{@count} #{@count == 1 ? "worker" : "workers"} from now on")
        reconcile
      end

      # Lets the workers reopen and reload files. A message reaches booting workers, too: they read
      # it once they serve.
      def reload = workers.each { |worker| worker.outbox.push(Link.line(reload: true)) }

      def signal_workers(name) = workers.each { |worker| worker.signal(name) unless worker.phase == :booting }

      # Called after SIGCHLD.
      def reap
        @crew.reaper.reap
        reconcile
      end

      # True if a serving worker has sent a message within the last `within_s` seconds.
      def answering?(within_s) = workers.any? { |worker| worker.serving? && Clock.now - worker.heard_s < within_s }

      # Returns the state for a successor in this process; without `links` for its rehearsal.
      def to_h(links: true)
        { generation: @generations.number, current: @generations.current&.pid, count: @count, **@crew.to_h(links: links),
          programs: @programs.select(&:pid).map(&:to_h) }
      end

      # Ends members that a successor cannot take over: loading molds, workers without a pid. Ends
      # all questions of this program.
      def settle
        workers.each { |worker| worker.forget_all("had not answered when the program was replaced") }
        @crew.molds.select(&:beginning?).each { |mold| dismiss(mold) }
        workers.select { |worker| worker.pid.nil? }.each { |worker| worker.link.close }
      end

      # Called by Crew with a member's message.
      def message(member, name, value)
        return unless member.class::MESSAGES.include?(name)

        case name
        when "broadcast" then return @crew.pass_on(member, value)
        when "answer" then return @crew.answered(member, value)
        when "ready" then member.ready(self)
        when "failed" then member.trouble = value if member.beginning?
        when "forked" then @crew.forked(member.answered, value)
        when "fork_failed" then not_forked(member.answered, value)
        when "pid" then @crew.forked(member, value)
        when "snapshot" then @crew.report(member, value)
        end
        reconcile
      end

      # Called by Crew after a member's end; `status` is nil if unknown.
      def member_ended(member, status)
        return unless @crew.remove(member)

        member.ended(self, status)
        reconcile
      end

      # --- called by members ---

      def mold_ready(mold)
        @generations.ready(mold)
        @crew.respawn.reset
      end

      def worker_ready(worker)
        return worker.signal(:TERM) if worker.leaving? # it had no handler for the first TERM yet

        worker.phase = :serving
        dismiss(@generations.former) if @generations.on_trial?(worker)
        workers.each { |other| other.leave(@shutdown_timeout_s) if other.index == worker.index && !other.equal?(worker) }
      end

      def mold_ended(mold, status)
        mold.owed.each { |worker| member_ended(worker, nil) if worker.pid.nil? }
        return if mold.leaving?

        current, loading = mold.equal?(@generations.current), mold.equal?(@generations.loading)
        @generations.drop(mold)
        return current_mold_died(mold, status) if current

        loading_failed(mold, mold.trouble || "#{LOADER} #{Member.end_of(status)}") if loading
      end

      def worker_ended(worker, status)
        return worker_left(worker, status) if worker.leaving?

        reason = (worker.trouble if worker.beginning?) || Member.end_of(status)
        return fail_to_start("#{worker} #{reason}") if @phase == :starting
        return roll_back(worker, reason) if @restarts.running? && @generations.on_trial?(worker)

        later = @crew.respawn.died(Clock.now - worker.started_s, Clock.now)
        @log.error("#{worker} #{reason}; another one starts#{" in #{later} s" if later.positive?}") unless stopping?
        @restarts.worker_died(worker.generation, "#{worker} #{reason}")
      end

      private

      def restore(former, program)
        @crew.restore(former)
        @generations.restore(former)
        former.fetch("programs", []).each do |kept|
          next if @programs.any? { |each| each.command == kept["command"] && each.pid.nil? && each.restore(kept) }

          @programs << program.call(kept["command"]).restore(kept, wanted: false)
        end
      end

      def reconcile
        return end_when_empty if stopping?

        supply_mold
        supply_workers if @generations.current
        workers.select { |worker| worker.index > @count }.each { |worker| worker.leave(@shutdown_timeout_s) }
        replace_next if @generations.current
        announce
        @programs.each(&:supply) if @phase == :serving
        waiting = @restarts.take_waiting or return
        start_restart(@restarts.begin(waiting.kind, waiting.promise), waiting.block)
      end

      def start_restart(promise, block)
        begin
          block.call
        rescue StandardError => error
          @restarts.finish(error.message)
        end
        reconcile
        promise
      end

      def end_when_empty
        @over.resolve if @crew.members.empty? && @programs.none?(&:pid)
      end

      # Refuses new connections and closes this process's copies of the sockets. Workers keep
      # their copies and accept connections that wait. Listener#close would end the refusal.
      def quit_listening
        @listeners.each do |listener|
          listener.refuse
          listener.socket.close
        end
      end

      def load_again
        dismiss(@generations.loading) if @generations.loading
        @generations.load(@restarts.target = @generations.number + 1)
      end

      def supply_mold
        @generations.load(@generations.number) if @generations.missing?
      rescue SystemCallError => error
        return fail_to_start("#{LOADER} cannot be started: #{error.message}#{advice(error)}") if @phase == :starting

        not_begun(LOADER, error, @generations.respawn)
      end

      def advice(error)
        ". This user may not execute that file, or not enter a folder above it" if error.is_a?(Errno::EACCES)
      end

      # Delays the next try, because the system lacks processes, memory or descriptors.
      def not_begun(what, error, respawn)
        later = respawn.died(0, Clock.now)
        @log.error("#{what} cannot be started: #{error.message}; the next try is in #{[later, TICK_S].max} s")
      end

      def supply_workers
        return unless @crew.respawn.over?(Clock.now)

        (1..@count).each { |index| fork_worker(index) if workers.none? { |worker| worker.index == index && !worker.leaving? } }
      end

      # Replaces one worker at a time, so that at most one is missing or extra.
      def replace_next
        now = Clock.now
        return if workers.any? { |worker| worker.beginning? || worker.leaving? } || !@crew.respawn.over?(now)

        newest = @generations.current.generation
        outdated = workers.find { |worker| worker.generation < newest || (worker.serving? && worker.trouble && @health.may_replace?(now)) }
        return fork_worker(outdated.index) if outdated

        finish_restart if @restarts.running? && @restarts.target == newest
      end

      def finish_restart
        @programs.each(&:renew)
        @restarts.finish
      end

      def announce
        return if @phase != :starting || workers.count(&:serving?) < @count

        @phase = :serving
        @ready&.call
      end

      def fork_worker(index)
        near, far = Link.pair
        mold = @generations.current
        worker = Member::Worker.new(near, generation: mold.generation, index: index)
        mold.ask_fork(worker, far.socket)
        @crew.add(worker)
      rescue LinkError
        near.close # the mold has ended; its end is noticed soon
      rescue SystemCallError => error
        not_begun("worker #{index}", error, @crew.respawn)
      ensure
        far&.close
      end

      def dismiss(mold)
        mold.dismiss
        @generations.drop(mold)
      end

      def not_forked(worker, reason)
        return if worker.nil?

        worker.trouble = reason
        member_ended(worker, nil)
      end

      def current_mold_died(mold, status)
        later = @generations.respawn.died(Clock.now - mold.started_s, Clock.now)
        @log.error("#{mold} #{Member.end_of(status)}; another one starts#{" in #{later} s" if later.positive?}, the workers go on")
      end

      def loading_failed(mold, reason)
        return @restarts.finish("the new code does not load, the workers of before go on: #{reason}") if @restarts.running?
        return fail_to_start(reason) if @phase == :starting

        later = @generations.respawn.died(Clock.now - mold.started_s, Clock.now)
        @log.error("#{reason}; the next try is in #{later} s")
      end

      # Ends a server that could not start, so that {#run} returns false.
      def fail_to_start(reason)
        @failed = true
        @failure = reason
        stop(now: true)
      end

      def worker_left(worker, status)
        @failed = true if stopping? && status&.signaled?
        @log.error("#{worker} #{Member.end_of(status)} while it was to finish its requests") if status && !status.success?
      end

      def roll_back(worker, reason)
        dismiss(@generations.roll_back)
        @restarts.finish("a worker with the new code does not start, the former workers stay: #{worker} #{reason}")
      end

      def tick
        now = Clock.now
        @health.excuse(@crew.members, now, TICK_S)
        @crew.members.dup.each do |member|
          action, why = @health.check(member, now)
          treat(member, action, why) if action
        end
        @programs.each(&:tick)
        reap
      end

      def treat(member, action, why)
        case action
        when :kill then kill(member, why)
        when :ask then member.signal(:QUIT)
        when :replace
          member.trouble = why
          @log.error("#{member} #{@health.outgrown(why, Clock.now - member.started_s, Clock.now)}")
        end
      end

      def kill(member, why)
        @log.error("#{member} #{why}; it is killed")
        member.trouble ||= "was killed, for it #{why}" if member.beginning?
        member_ended(member, nil) unless member.kill
      end
    end
  end
end
