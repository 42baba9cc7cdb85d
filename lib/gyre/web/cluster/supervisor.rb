# frozen_string_literal: true

# The first process of a server with workers: owns the listening sockets and never loads the app.
# It starts a *mold* (Gyre::Web::Cluster::Mold), which loads the app and forks the *workers*; it
# replaces what dies, restarts them one after another, and ends them. Gyre::CLI::Serve makes one;
# signals and requests of `gyre ctl` reach it as calls of its public methods, all on its loop.
#
# What is to be done follows from what there is: each event ends with `reconcile`, which starts and
# stops processes until there is a worker for each number, all forked from the current mold.
#
#   rolling restart    a new mold loads the code of today ─ it fails: all stays as it is
#                      └ ready: for each worker: fork a successor ─ it serves: TERM to the worker ─ it has left: next
#                        the first successor dies: the new mold is dropped, the old one is current again
#                        later ones die, three times: it has failed, and they are tried on

require "gyre"
require "gyre/web/cluster/backoff"
require "gyre/web/cluster/health"
require "gyre/web/cluster/link"
require "gyre/web/cluster/member"
require "gyre/web/cluster/program"
require "gyre/web/cluster/reaper"
require "gyre/web/cluster/restarts"
require "gyre/web/metrics"

module Gyre
  module Web
    module Cluster
      # See the head of this file.
      class Supervisor
        TICK_S = 0.5
        # What a process gets to end by itself beyond its own limit, before KILL.
        GRACE_S = 5
        private_constant :TICK_S, :GRACE_S

        # @return [Integer] how many workers there shall be
        attr_reader :count
        # @return [Array<Member>]
        attr_reader :workers
        # @return [Restarts]
        attr_reader :restarts
        # @return [Array<Program>] that run beside the workers
        attr_reader :programs
        # @return [Reaper] of every child of this process
        attr_reader :reaper
        # @return [String, nil] why the server could not start
        attr_reader :failure

        # @param count [Integer] workers
        # @param listeners [Array<Gyre::Listener>]
        # @param spawn [#call] given a {Link}; starts a mold that inherits it, returns its process
        # @param log [#info, #error]
        # @param shutdown_timeout [Numeric] what a worker has for its requests, seconds
        # @param former [Hash, nil] what the former program in this process left ({#to_h})
        # @param ready [#call, nil] called when all workers serve, for the first time
        # @param restarted [#call, nil] called when a restart is over, whether it was done or not
        # @param beside [Array<String>] commands of programs that run beside the workers
        # @param spawn_program [#call, nil] given a command's words; starts it, returns its process
        # @param limits [Hash] for {Health#initialize}
        def initialize(count:, listeners:, spawn:, log:, shutdown_timeout: 30, former: nil, ready: nil, restarted: nil, beside: [],
                       spawn_program: nil, **limits)
          @count = count
          @listeners = listeners
          @spawn = spawn
          @log = log
          @shutdown_timeout_s = shutdown_timeout
          @ready = ready
          @health = Health.new(**limits)
          @restarts = Restarts.new(log, &restarted)
          @workers = []
          @molds = []
          @reaper = Reaper.new
          @spawn_program = spawn_program
          @programs = beside.map { |command| program(command) }
          @awaiting_fork = Hash.new { |hash, mold| hash[mold] = [] }
          @backoff = Backoff.new
          @mold_backoff = Backoff.new
          @growth_backoff = Backoff.new
          @generation = 1
          @failed = false
          restore(former) if former
        end

        # Serves until {#stop}.
        #
        # @yield inside of its loop, before any process is started
        # @return [Boolean] whether all went well; false: the app could not be loaded at the start,
        #   or a worker had to be killed at the end
        def run
          Gyre.run("supervisor") do |task|
            @task = task
            @finish = Promise.new
            @reaper.adopt_orphans
            yield if block_given?
            (@molds + @workers).each do |member|
              watch(member)
              listen_to(member)
            end
            @programs.each(&:watch)
            task.every(TICK_S, "clock") { tick }
            begin_restart(:hot) { load_again } if @restored
            reap
            @finish.wait
          end
          !@failed
        end

        # Lets each worker finish its requests and ends. A second call, or `now`, ends them at once.
        #
        # @param now [Boolean]
        # @return [void]
        def stop(now: false)
          now ||= @stopping == :gently
          return if @stopping == :now

          unless @failed # the reason for that is the message
            @log.info(now ? "Stopping at once" : "Stopping. Requests may finish within #{@shutdown_timeout_s} s; " \
                                                 "Ctrl-C again stops at once")
          end
          @stopping = now ? :now : :gently
          @restarts.give_up("the server stops")
          quit_listening
          @molds.each { |mold| dismiss(mold) }
          @workers.each { |worker| now ? hurry(worker) : leave(worker) }
          @programs.each { |program| program.stop(now: now) }
          reconcile
        end

        # @return [Boolean]
        def stopping? = !@stopping.nil?

        # Loads the app's code again and replaces the workers one after another.
        #
        # @yield when it begins
        # @return [Promise] of nil when it is done, or of the reason why it is not
        def rolling_restart
          begin_restart(:rolling) do
            yield if block_given?
            load_again
          end
        end

        # At once, or when the present one is over.
        #
        # @param kind [Symbol]
        # @yield begins it
        # @return [Promise] of nil when it is done, or of the reason why it is not
        def begin_restart(kind, &block)
          return Restarts.refused("the server stops") if stopping?
          return @restarts.remember(kind, block) if @restarts.running?

          start_restart(@restarts.begin(kind), block)
        end

        # @param difference [Integer] workers more or fewer; there is always one
        # @return [void]
        def resize(difference)
          @count = [@count + difference, 1].max
          @log.info("#{@count} #{@count == 1 ? "worker" : "workers"} from now on")
          reconcile
        end

        # @param name [Symbol] of a signal, to each worker
        # @return [void]
        def signal_workers(name) = @workers.each { |worker| worker.signal(name) unless worker.phase == :booting }

        # A child may have ended; called after SIGCHLD.
        #
        # @return [void]
        def reap
          @reaper.reap
          reconcile
        end

        # @return [Hash{String => Hash}] what each worker sent last, by its name, which no other one
        #   has: "2", "2 (leaving)", "2 (leaving, 2)"
        def snapshots
          @workers.select(&:snapshot).each_with_object({}) do |worker, all|
            names = (1..).lazy.map { |nth| name_of(worker, nth) }
            all[names.find { |name| !all.key?(name) }] = worker.snapshot
          end
        end

        # @return [Hash, nil] the counts of workers that have ended (see {Metrics.add})
        attr_reader :ended

        # @return [Boolean] whether a worker has given a sign lately
        def answering?(within_s) = @workers.any? { |worker| worker.serving? && Clock.now - worker.heard_s < within_s }

        # What {Handover} keeps for a successor in this process.
        #
        # @return [Hash] for JSON
        def to_h
          closed, linked = (@molds + @workers).select(&:pid).partition { |member| member.link.closed? }
          { generation: @generation, current: @current&.pid, count: @count, ended: @ended, members: linked.map(&:to_h),
            leaving: closed.to_h { |member| [member.pid, member.leave_until_s] }, programs: @programs.select(&:pid).map(&:to_h) }
        end

        # Before this process becomes another program: what it could not take over has to go.
        # @return [void]
        def settle
          @molds.select(&:beginning?).each { |mold| dismiss(mold) }
          @workers.select { |worker| worker.pid.nil? }.each { |worker| worker.link.close }
        end

        # @return [Array<UNIXSocket>] that stay open meanwhile
        def sockets = (@molds + @workers).select(&:pid).reject { |member| member.link.closed? }.map { |member| member.link.socket }

        private

        def name_of(worker, nth)
          notes = [("leaving" if worker.leaving?), (nth if nth > 1)].compact
          notes.empty? ? worker.index.to_s : "#{worker.index} (#{notes.join(", ")})"
        end

        def restore(former)
          @restored = true
          @generation = former.fetch("generation")
          @ended = former["ended"]
          members = former.fetch("members").map { |kept| Member.restore(kept) }
          @molds, @workers = members.partition { |member| member.role == :mold }
          @current = @molds.find { |mold| mold.pid == former["current"] }
          former.fetch("leaving", {}).each { |pid, limit_s| @molds << Member.leaving(Integer(pid), limit_s) }
          former.fetch("programs", []).each { |kept| restore_program(kept) }
          @announced = true
        end

        def restore_program(kept)
          return if @programs.any? { |program| program.command == kept["command"] && program.pid.nil? && program.restore(kept) }

          @programs << program(kept["command"]).restore(kept, wanted: false)
        end

        def program(command) = Program.new(command, log: @log, reaper: @reaper, shutdown_timeout: @shutdown_timeout_s, &@spawn_program)

        # --- what there shall be ---

        def reconcile
          return end_when_empty if @stopping

          supply_mold
          supply_workers if @current
          @workers.select { |worker| worker.index > @count && !worker.leaving? }.each { |worker| leave(worker) }
          replace_next if @current
          announce
          @programs.each(&:supply) if @announced
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
          @finish.resolve if @workers.empty? && @molds.empty? && @programs.none?(&:pid)
        end

        # The sockets live until the last worker has taken what waits there, and closes its own; not
        # Listener#close, which would let new connections in again.
        def quit_listening
          @listeners.each do |listener|
            listener.refuse
            listener.socket.close
          end
        end

        def load_again
          dismiss(@loading) if @loading
          spawn_mold(@restarts.target = @generation + 1)
        end

        def supply_mold
          return if @current || @loading || !@mold_backoff.over?(Clock.now)

          spawn_mold(@generation)
        rescue SystemCallError => error
          raise unless @announced

          not_begun("the process that loads the code", error, @mold_backoff)
        end

        # The system has no process, no memory or no descriptor left.
        def not_begun(what, error, backoff)
          later = backoff.died(0, Clock.now)
          @log.error("#{what} cannot be started: #{error.message}; the next try is in #{[later, TICK_S].max} s")
        end

        def spawn_mold(generation)
          near, far = Link.pair
          begin
            pid = @spawn.call(far)
          ensure
            far.close
            near.close unless pid
          end
          @loading = Member.new(:mold, near, generation: generation, pid: pid)
          @molds << @loading
          watch(@loading)
          listen_to(@loading)
        end

        def supply_workers
          return unless @backoff.over?(Clock.now)

          (1..@count).each do |index|
            fork_worker(index) if @workers.none? { |worker| worker.index == index && !worker.leaving? }
          end
        end

        # One at a time, so that never more than one worker too few or too many is there.
        def replace_next
          now = Clock.now
          return if @workers.any? { |worker| worker.beginning? || worker.leaving? } || !@backoff.over?(now)

          outdated = @workers.find { |worker| worker.generation < @current.generation || (worker.replace && @growth_backoff.over?(now)) }
          return fork_worker(outdated.index) if outdated

          finish_restart if @restarts.running? && @restarts.target == @current.generation
        end

        def finish_restart
          @programs.each(&:renew)
          @restarts.finish
        end

        def announce
          return if @announced || @workers.count(&:serving?) < @count

          @announced = true
          @ready&.call
        end

        # --- processes ---

        def fork_worker(index)
          near, far = Link.pair
          worker = Member.new(:worker, near, generation: @current.generation, index: index)
          @current.link.send({ fork: index, generation: worker.generation }, far.socket)
          @workers << worker
          @awaiting_fork[@current] << worker
          @current.asked_s ||= Clock.now
          listen_to(worker)
        rescue LinkError
          near.close # the mold is about to be found dead
        rescue SystemCallError => error
          not_begun("worker #{index}", error, @backoff)
        ensure
          far&.close
        end

        # After its requests.
        def leave(worker)
          return if worker.leaving?

          worker.leave_until_s = Clock.now + @shutdown_timeout_s + GRACE_S
          worker.phase = :leaving
          worker.signal(:TERM)
        end

        def hurry(worker)
          worker.phase = :leaving
          worker.leave_until_s = Clock.now + GRACE_S
          worker.link.send({ stop: "now" })
        rescue LinkError
          nil # it has gone
        end

        # Its link's end is what a mold leaves by.
        def dismiss(mold)
          return if mold.leaving?

          mold.phase = :leaving
          mold.leave_until_s = Clock.now + GRACE_S
          mold.reader&.stop
          mold.link.close
          @current = nil if mold == @current
          @former = nil if mold == @former
          @loading = nil if mold == @loading
        end

        def watch(member) = @reaper.watch(member.pid) { |status| member_ended(member, status) }

        def listen_to(member)
          member.reader = @task.async("#{member.role} #{member.index}", transient: true) do
            while (message = member.link.receive)
              member.heard_s = Clock.now
              member.role == :mold ? message_of_mold(member, message) : message_of_worker(member, message)
              reconcile
            end
            link_ended(member)
          rescue LinkError => error
            @log.error("#{member} sends what is no message (#{error.message}); it is ended")
            member.signal(:KILL)
            link_ended(member)
          end
        end

        def link_ended(member)
          return member_ended(member, nil) if member.pid.nil? || !@reaper.adopts

          member.leave_until_s = [member.leave_until_s, Clock.now + GRACE_S].compact.min # it is about to end
        end

        def message_of_mold(mold, message)
          name, value = message.first
          case name
          when "ready" then mold_ready(mold)
          when "failed" then mold.failure = value
          when "forked" then forked(answered(mold), value)
          when "fork_failed" then not_forked(answered(mold), value)
          end
        end

        # @return [Member, nil] the worker that the mold was asked for first
        def answered(mold)
          waiting = @awaiting_fork[mold]
          waiting.shift.tap { mold.asked_s = waiting.empty? ? nil : Clock.now }
        end

        def mold_ready(mold)
          mold.phase = :ready
          @mold_backoff.reset
          @former = @current if @current
          @current = mold
          @loading = nil
          @generation = mold.generation
          @backoff.reset
        end

        def forked(worker, pid)
          return if worker.nil? || worker.pid
          raise LinkError, "#{pid.inspect[0, 80]} instead of a process" unless pid.is_a?(Integer) && pid.positive?

          worker.forked(pid)
          watch(worker)
          worker.signal(:TERM) if worker.leaving?
        end

        def not_forked(worker, reason)
          return if worker.nil?

          worker.failure = reason
          member_ended(worker, nil)
        end

        def message_of_worker(worker, message)
          name, value = message.first
          case name
          when "pid" then forked(worker, value)
          when "ready" then serves(worker)
          when "snapshot" then worker.report(value)
          when "failed" then worker.failure = value
          end
        end

        def serves(worker)
          return worker.signal(:TERM) if worker.leaving? # it did not hear the first one

          worker.phase = :serving
          dismiss(@former) if @former && worker.generation == @current&.generation
          @workers.each { |other| leave(other) if other.index == worker.index && !other.equal?(worker) }
        end

        # --- ends ---

        def member_ended(member, status)
          return unless @workers.delete(member) || @molds.delete(member)

          member.link.close
          member.reader&.stop unless Task.current?.equal?(member.reader)
          member.role == :mold ? mold_ended(member, status) : worker_ended(member, status)
          reconcile
        end

        def mold_ended(mold, status)
          @awaiting_fork.delete(mold)&.each { |worker| member_ended(worker, nil) if worker.pid.nil? }
          return if mold.leaving?

          @former = nil if mold == @former
          return current_mold_died(mold, status) if mold == @current
          return unless mold == @loading

          @loading = nil
          loading_failed(mold, mold.failure || "the process that loads the code #{Member.end_of(status)}")
        end

        def current_mold_died(mold, status)
          @current = nil
          later = @mold_backoff.died(Clock.now - mold.started_s, Clock.now)
          @log.error("#{mold} #{Member.end_of(status)}; another one starts#{" in #{later} s" if later.positive?}, the workers go on")
        end

        def loading_failed(mold, reason)
          return @restarts.finish("the new code does not load, the workers of before go on: #{reason}") if @restarts.running?
          return fail_to_start(reason) unless @announced

          later = @mold_backoff.died(Clock.now - mold.started_s, Clock.now)
          @log.error("#{reason}; the next try is in #{later} s")
        end

        # Nothing has served yet: the author of the start is to see that it failed.
        def fail_to_start(reason)
          @failed = true
          @failure = reason
          stop(now: true)
        end

        def worker_ended(worker, status)
          @ended = Metrics.add(@ended, worker.snapshot) if worker.snapshot
          return worker_left(worker, status) if worker.leaving?

          reason = worker.failure || Member.end_of(status)
          return fail_to_start("#{worker} #{reason}") unless @announced
          return roll_back(worker, reason) if @restarts.running? && @former && worker.generation == @current&.generation

          later = @backoff.died(Clock.now - worker.started_s, Clock.now)
          @log.error("#{worker} #{reason}; another one starts#{" in #{later} s" if later.positive?}") unless @stopping
          @restarts.worker_died(worker.generation, "#{worker} #{reason}")
        end

        def worker_left(worker, status)
          @failed = true if @stopping && status&.signaled?
          @log.error("#{worker} #{Member.end_of(status)} while it was to finish its requests") if status && !status.success?
        end

        def roll_back(worker, reason)
          broken = @current
          @current = @former
          @former = nil
          dismiss(broken)
          @restarts.finish("a worker with the new code does not start, those of before go on: #{worker} #{reason}")
        end

        # --- the clock ---

        # A supervisor that stood still has heard nothing meanwhile.
        def tick
          now = Clock.now
          late = @ticked_s ? now - @ticked_s - TICK_S : 0
          @ticked_s = now
          (@workers + @molds).each { |member| member.heard_s += late if late > TICK_S }
          (@workers + @molds).each do |member|
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
          when :replace then outgrown(member, why)
          end
        end

        # A limit that fresh workers are beyond would have them forked without end.
        def outgrown(worker, why)
          worker.replace = why
          lived_s = Clock.now - worker.started_s
          later = @growth_backoff.died(lived_s, Clock.now)
          young = "; the limit is too small for this app: it has been there for #{lived_s.round} s" if lived_s < Backoff::SOUND_S
          @log.error("#{worker} #{why}#{young}#{"; the next try is in #{later} s" if later.positive?}")
        end

        def kill(member, why)
          @log.error("#{member} #{why}; it is killed")
          member.failure ||= "was killed, for it #{why}" if member.beginning?
          return member_ended(member, nil) unless member.signal(:KILL)

          member.leave_until_s = Clock.now + GRACE_S
        end
      end
    end
  end
end
