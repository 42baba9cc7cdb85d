# frozen_string_literal: true

# The supervisor's view of a mold or worker.
#
#   mold     :loading ─ "ready" ─► :ready ──────────────────────────► :leaving ─► (ended)
#   worker   :booting ─ "ready" ─► :serving ─ TERM, replaced ───────► :leaving ─► (ended)
#
# Once its link is closed, a process soon ends or is killed.

require "gyre/broadcast/outbox"
require "gyre/clock"
require "gyre/inspection/memory"
require "gyre/cluster/link"
require "gyre/sync/promise"

module Gyre
  module Cluster
    class Member
      # Seconds that a process has beyond its own time limit, before KILL.
      GRACE_S = 5
      # Attributes that {#to_h} keeps.
      KEPT = %i[generation pid phase started_s heard_s leave_until_s].freeze
      attr_reader :generation # which load of the app's code it runs, from 1
      attr_reader :link
      attr_reader :started_s # monotonic
      attr_reader :pid # nil until known
      attr_accessor :phase # see the state machine above
      attr_accessor :heard_s # when the last message came
      attr_accessor :leave_until_s # when it is killed, unless it has ended; or nil
      attr_accessor :trouble # why it could not begin, or is to be replaced

      def initialize(link, generation:, pid: nil, phase: self.class::FIRST_PHASE, started_s: Clock.now, heard_s: Clock.now, leave_until_s: nil)
        @link = link
        @generation = generation
        @pid = pid
        @phase = phase.to_sym
        @started_s = started_s
        @heard_s = heard_s
        @leave_until_s = leave_until_s
      end

      # Kills the process; false if it has ended.
      def kill = signal(:KILL) && (@leave_until_s = Clock.now + GRACE_S)

      # Lets the process be killed after GRACE_S, unless an earlier time is set already.
      def expect_end = @leave_until_s = [@leave_until_s, Clock.now + GRACE_S].compact.min

      def snapshot = nil # a worker's figures

      def leaving? = @phase == :leaving

      def serving? = @phase == :serving

      # True for a worker that does not serve yet, and for a mold that has not loaded the app.
      def beginning? = @phase == self.class::FIRST_PHASE

      def to_s = "#{name}#{" (process #{@pid})" if @pid}"

      # Sends a signal; false if the process has ended or its pid is unknown.
      def signal(name) = !@pid.nil? && Member.signal(name, @pid)

      # Sends a signal to a process, or to a group if `pid` is negative; false if it has ended.
      def self.signal(name, pid)
        Process.kill(name, pid)
        true
      rescue Errno::ESRCH, Errno::EPERM
        false
      end

      def resident_bytes = @pid && Memory.resident_bytes(@pid)

      # Describes an exit status, which is nil if unknown.
      def self.end_of(status)
        return "has gone" unless status
        return "was ended by SIG#{Signal.signame(status.termsig)}" if status.signaled?

        "ended with status #{status.exitstatus}"
      end

      def to_h(link: true)
        { role: self.class::ROLE, **self.class::KEPT.to_h { |name| [name, public_send(name)] },
          descriptor: (@link.socket.fileno if link && !@link.closed?), input: [@link.input].pack("m0"), output: [unsent].pack("m0") }
      end

      # Restores a member, with its link if that is still open.
      def self.restore(kept)
        input, output = kept.values_at("input", "output").map { |text| text.unpack1("m0") }
        link = kept["descriptor"] ? Link.new(kept["descriptor"], input: input, output: output) : Link.ended
        new(link, **self::KEPT.to_h { |name| [name, kept[name.to_s]] })
      end

      private

      def unsent = @link.output

      # Gyre::Cluster::Mold is the process itself.
      class Mold < Member
        ROLE = "mold"
        FIRST_PHASE = :loading
        MESSAGES = %w[ready failed forked fork_failed].freeze # that it sends

        attr_reader :owed # workers that it was asked for and has not forked yet
        attr_reader :owes_since_s # since when it works on the first worker owed

        def initialize(...)
          super
          @owed = []
        end

        def name = "the mold"

        # Returns what it must do, since when (nil: nothing), and the limit's name.
        def duty = beginning? ? ["load the app", @started_s, :load_timeout] : ["fork a worker", @owes_since_s, :worker_boot_timeout]

        def ready(supervisor) = supervisor.mold_ready(self)

        def ended(supervisor, status) = supervisor.mold_ended(self, status)

        # Asks it to fork a worker, which gets the socket. Raises LinkError.
        def ask_fork(worker, socket)
          @link.send({ fork: worker.index, generation: worker.generation }, socket)
          @owed << worker
          @owes_since_s ||= Clock.now
        end

        # Removes and returns the oldest of the workers that it was asked for.
        def answered = @owed.shift.tap { @owes_since_s = @owed.empty? ? nil : Clock.now }

        # Ends it by closing its link; a loading one is told, because it does not read the link.
        def dismiss
          return if leaving?

          loading = beginning?
          @phase = :leaving
          expect_end
          @link.close
          signal(:TERM) if loading
        end
      end

      # Gyre::Cluster::Worker is the process itself.
      class Worker < Member
        ROLE = "worker"
        FIRST_PHASE = :booting
        MESSAGES = %w[pid ready failed snapshot broadcast answer].freeze # that it sends
        KEPT = [*Member::KEPT, :index, :reported].freeze

        attr_reader :index # its number, from 1
        attr_reader :outbox # messages to it
        attr_accessor :reported # its last snapshot, and when that came; or nil

        def initialize(link, index:, reported: nil, **state)
          super(link, **state)
          @index = index
          @reported = reported
          @asked = {} # number of a question => Promise of the answer
        end

        def name = "worker #{@index}"

        # Returns what it must do, since when, and the limit's name; nil once it serves.
        def duty = (["start", @started_s, :worker_boot_timeout] if beginning?)

        def ready(supervisor) = supervisor.worker_ready(self)

        def ended(supervisor, status)
          forget_all("ended meanwhile")
          supervisor.worker_ended(self, status)
        end

        # Sends the outbox's messages in a task. The block gets text for the log.
        def begin_sending(task, &log)
          @outbox = Broadcast::Outbox.new(&log)
          @link.tasks << task.async("messages to #{name}", transient: true) { @link.carry(@outbox) }
        end

        # Asks it to end after its requests.
        def leave(within_s)
          return if leaving?

          @phase = :leaving
          @leave_until_s = Clock.now + within_s + GRACE_S
          signal(:TERM)
        end

        def hurry
          @phase = :leaving
          @leave_until_s = Clock.now + GRACE_S
          @outbox.push(Link.line(stop: "now"))
        end

        def forked(pid)
          @pid = pid
          @started_s = @heard_s = Clock.now
        end

        # Asks it a question (Answers). Returns a Promise of the answer, which always comes.
        def ask(number, name, argument)
          @outbox.push(Link.line(ask: [number, name, argument]))
          @asked[number] = Promise.new
        end

        # Drops the answer to a question that is forgotten.
        def answered(number, answer) = @asked.delete(number)&.resolve(answer)

        # Ends an unanswered question, here and in the worker.
        def forget(number, reason = "was asked in vain")
          answer = @asked.delete(number) or return
          @outbox.push(Link.line(forget: number))
          answer.resolve({ "error" => reason })
        end

        def forget_all(reason) = @asked.keys.each { |number| forget(number, reason) }

        # Stores its snapshot.
        def report(snapshot) = @reported = [snapshot, Clock.now]

        # Its last snapshot, with its age.
        def snapshot = @reported&.then { |snapshot, at_s| snapshot.merge("report_age_s" => (Clock.now - at_s).round(3)) }

        private

        def unsent = "#{super}#{@outbox}"
      end
    end
  end
end
