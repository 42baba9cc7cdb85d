# frozen_string_literal: true

# The processes of a cluster: molds and workers, with their links and exit statuses. Passes messages
# and statuses to the supervisor; decides nothing.

require "gyre/cluster/respawn"
require "gyre/cluster/member"
require "gyre/sync/promise"
require "gyre/cluster/process_number"

module Gyre
  module Cluster
    # Takes the exit statuses of all children, including orphans of workers (Gyre::Orphans). The
    # supervisor calls wait only here. Passes each status to the block for its pid, which may be
    # registered after the child's end.
    class Reaper
      # Maximum statuses kept for pids that have no block yet.
      STRAYS_LIMIT = 100

      def initialize
        @blocks = {}
        @strays = {}
      end

      attr_reader :adopts # whether orphans become children of this process

      def adopt_orphans = @adopts = Orphans.adopt

      # Yields the child's status once: now if the child has ended, otherwise at its end.
      def watch(pid, &block)
        status = @strays.delete(pid)
        status = nil if status && ProcessNumber.taken?(pid) # of an earlier process with this pid
        status ? block.call(status) : @blocks[pid] = block
      end

      # Takes statuses of ended children; called after SIGCHLD, and periodically.
      def reap
        while (found = Process.wait2(-1, Process::WNOHANG))
          pid, status = found
          block = @blocks.delete(pid)
          next block.call(status) if block

          @strays[pid] = status
          @strays.shift if @strays.size > STRAYS_LIMIT
        end
      rescue Errno::ECHILD
        nil # no children
      end

      # Runs a program to its end; kills it after `limit_s`, or if the calling task is stopped.
      def run(*command, limit_s:, **options)
        promise = Promise.new
        pid = Process.spawn(*command, **options)
        watch(pid) { |status| promise.resolve(status) }
        promise.wait(timeout: limit_s)
      rescue TimeoutError
        Process.kill(:KILL, pid)
        promise.wait
      ensure
        end_now(pid) if pid && promise.pending?
      end

      private

      # Kills a child and takes its status, so that its descriptors are closed after this call.
      def end_now(pid)
        @blocks.delete(pid)
        Process.kill(:KILL, pid)
        Process.wait(pid)
      rescue Errno::ESRCH, Errno::ECHILD
        nil # it has ended
      end
    end

    class Crew
      KINDS = [Member::Mold, Member::Worker].to_h { |kind| [kind::ROLE, kind] }.freeze

      attr_reader :members # molds and workers
      attr_reader :reaper # of every child of this process
      attr_reader :respawn # of all workers together
      attr_reader :ended # summed counters of ended workers (see `figures`)

      # Calls `heed.message(member, name, value)` and `heed.member_ended(member, status)`. `figures`
      # checks snapshots (readable?), adds them (add) and keeps their labels (reserve), as
      # Gyre::Web::Metrics does.
      def initialize(log, heed, figures)
        @log = log
        @figures = figures
        @heed = heed
        @members = []
        @reaper = Reaper.new
        @respawn = Respawn.new
        @publishers = []
        @questions = Random.rand(1 << 48) # number of the last one, also unlike those of a former program
      end

      # Restores the members from a former program's {#to_h}.
      def restore(former)
        @ended = former["ended"]
        @publishers = former["publishers"].to_a.map { |kept| Link.new(kept["descriptor"], input: kept["input"].unpack1("m0")) }
        @members = former.fetch("members").map { |kept| KINDS.fetch(kept["role"]).restore(kept) }
        workers.each { |worker| worker.reported = nil unless @figures.readable?(worker.snapshot) } # of another version
      end

      # Called on the supervisor's loop.
      def start(task)
        @task = task
        @reaper.adopt_orphans
      end

      def listen
        members.dup.each do |member|
          watch(member)
          listen_to(member)
        end
        @publishers.each { |link| hear(link) }
      end

      # Returns the socket that programs beside the workers inherit (Broadcast::Uplink).
      def entrance
        @entrance ||= Link.pair.then do |near, far|
          hear(near)
          far.socket
        end
      end

      def workers = @members.grep(Member::Worker)

      def molds = @members.grep(Member::Mold)

      def add(member)
        @members << member
        watch(member) if member.pid
        listen_to(member)
      end

      # Records a forked worker's pid. Raises LinkError if `pid` is not a pid.
      def forked(worker, pid)
        return if worker.nil? || worker.pid
        raise LinkError, "#{pid.inspect[0, 80]} instead of a process" unless pid.is_a?(Integer) && pid.positive?

        worker.forked(pid)
        watch(worker)
        worker.signal(:TERM) if worker.leaving?
      end

      # Removes an ended member; false if it was removed before.
      def remove(member)
        return false unless @members.delete(member)

        @ended = @figures.add(@ended, member.snapshot) if member.snapshot # first: closing waits, while sums are read
        member.link.close
        true
      end

      # Stores a worker's snapshot. Raises LinkError if it is malformed.
      def report(worker, snapshot)
        raise LinkError, "a snapshot that cannot be read" unless @figures.readable?(snapshot)

        worker.report(snapshot)
        @ended = @figures.reserve(@ended, snapshot)
      end

      # Returns snapshots by unique names, such as "2", "2 (leaving)" and "2 (leaving, 2)".
      def snapshots
        workers.select(&:snapshot).each_with_object({}) do |worker, all|
          names = (1..).lazy.map { |nth| name_of(worker, nth) }
          all[names.find { |name| !all.key?(name) }] = worker.snapshot
        end
      end

      # Asks each serving worker a question (Answers). Returns the worker's name and answer of each:
      # a Hash with the "value", or with the "error", which is why there is none.
      def ask(name, argument = nil, timeout_s:)
        number = @questions += 1
        until_s = Clock.now + timeout_s
        asked = workers.select(&:serving?)
        answers = asked.map { |worker| [worker.name, worker.ask(number, name, argument)] }
        answers.map { |worker, answer| [worker, await(answer, until_s)] }
      ensure
        asked&.each { |worker| worker.forget(number) }
      end

      # Takes a worker's answer. Raises LinkError if it is malformed.
      def answered(worker, answer)
        raise LinkError, "an answer that cannot be read" unless (answer in [Integer, Hash])

        worker.answered(*answer)
      end

      # Returns the links' sockets, which stay open when this process executes another program.
      def sockets = [*members.select(&:pid).map(&:link), *@publishers].reject(&:closed?).map(&:socket)

      def to_h(links: true)
        publishers = (links ? @publishers : []).map { |link| { descriptor: link.socket.fileno, input: [link.input].pack("m0") } }
        { ended: @ended, members: members.select(&:pid).map { |member| member.to_h(link: links) }, publishers: publishers }
      end

      # Passes a worker's broadcast to the other workers. A hanging worker delays no other worker.
      def pass_on(from, broadcast)
        line = Link.line(broadcast: broadcast)
        workers.each { |worker| worker.outbox.offer(line) unless worker.equal?(from) }
      end

      private

      def await(answer, until_s)
        answer.wait(timeout: [until_s - Clock.now, 0].max)
      rescue TimeoutError
        { "error" => "has not answered" }
      end

      def name_of(worker, nth)
        notes = [("leaving" if worker.leaving?), (nth if nth > 1)].compact
        notes.empty? ? worker.index.to_s : "#{worker.index} (#{notes.join(", ")})"
      end

      # Passes on an ended member's last messages, which may have the reason, and then its status.
      def watch(member)
        @reaper.watch(member.pid) do |status|
          take_rest(member)
          @heed.member_ended(member, status)
        end
      end

      def take_rest(member)
        while (message = member.link.receive(wait: false))
          @heed.message(member, *message.first)
        end
      rescue LinkError
        nil # the end cut a message off
      end

      def listen_to(member)
        member.begin_sending(@task) { |text| @log.error("#{member} #{text}") } if member.is_a?(Member::Worker)
        member.link.tasks << @task.async("messages of #{member.name}", transient: true) do
          while (message = member.link.receive)
            member.heard_s = Clock.now
            @heed.message(member, *message.first)
          end
          link_ended(member)
        rescue LinkError => error
          @log.error("#{member} sends no valid message (#{error.message}); it is ended")
          member.signal(:KILL)
          link_ended(member)
        end
      end

      # Passes on the broadcasts of a process of a program beside the workers.
      def hear(link)
        @publishers |= [link]
        @task.async("messages of programs", transient: true) do
          while (message = link.receive)
            message["join"] ? hear(Link.new(link.take_socket)) : pass_on(nil, message["broadcast"])
          end
        rescue LinkError => error
          @log.error("a program beside the workers sends no valid message: #{error.message}")
        ensure
          @publishers.delete(link)
          link.close
        end
      end

      def link_ended(member)
        molds.each { |mold| take_rest(mold) } if member.pid.nil? # the mold may have told why it was not forked
        return @heed.member_ended(member, nil) if member.pid.nil? || !@reaper.adopts

        member.expect_end
      end
    end
  end
end
