# frozen_string_literal: true

# The supervisor's view of a mold or worker.
#
#   mold     :loading ─ "ready" ─► :ready ──────────────────────────► :leaving ─► (ended)
#   worker   :booting ─ "ready" ─► :serving ─ TERM, replaced ───────► :leaving ─► (ended)
#
# Once its link is closed, a process soon ends or is killed.

require "gyre/clock"
require "gyre/inspection/memory"
require "gyre/cluster/link"

module Gyre
  module Cluster
    class Member
      # Seconds that a process has beyond its own time limit, before KILL.
      GRACE_S = 5
      # Attributes that {#to_h} keeps.
      KEPT = %i[generation index pid phase started_s heard_s leave_until_s].freeze
      attr_reader :role # :mold or :worker
      attr_reader :index # a worker's number, from 1; 0 for a mold
      attr_reader :generation # which load of the app's code it runs, from 1
      attr_reader :link
      attr_reader :started_s # monotonic
      attr_reader :pid # nil until known
      attr_reader :owed # workers that a mold was asked for and has not forked yet
      attr_reader :owes_since_s # since when the mold works on the first worker owed
      attr_accessor :phase # see the state machine above
      attr_accessor :outbox # a worker's messages, sent by Crew's task
      attr_accessor :heard_s # when the last message came
      attr_accessor :leave_until_s # when it is killed, unless it has ended; or nil
      attr_accessor :trouble # why it could not begin, or is to be replaced

      def initialize(role, link, generation:, index: 0, pid: nil, phase: nil, started_s: Clock.now, heard_s: Clock.now,
                     leave_until_s: nil)
        @role = role
        @link = link
        @generation = generation
        @index = index
        @pid = pid
        @phase = phase&.to_sym || (role == :mold ? :loading : :booting)
        @started_s = started_s
        @heard_s = heard_s
        @leave_until_s = leave_until_s
        @owed = []
      end

      # Asks the mold to fork a worker, which gets the socket. Raises LinkError.
      def ask_fork(worker, socket)
        @link.send({ fork: worker.index, generation: worker.generation }, socket)
        @owed << worker
        @owes_since_s ||= Clock.now
      end

      # Removes and returns the oldest of the workers that the mold was asked for.
      def answered = @owed.shift.tap { @owes_since_s = @owed.empty? ? nil : Clock.now }

      # Asks a worker to end after its requests.
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

      # Ends a mold by closing its link; a loading one is told, because it does not read the link.
      def dismiss
        return if leaving?

        loading = beginning?
        @phase = :leaving
        expect_end
        @link.close
        signal(:TERM) if loading
      end

      # Kills the process; false if it has ended.
      def kill = signal(:KILL) && (@leave_until_s = Clock.now + GRACE_S)

      # Lets the process be killed after GRACE_S, unless an earlier time is set already.
      def expect_end = @leave_until_s = [@leave_until_s, Clock.now + GRACE_S].compact.min

      def forked(pid)
        @pid = pid
        @started_s = @heard_s = Clock.now
      end

      # Stores a worker's snapshot.
      def report(snapshot) = @report = [snapshot, Clock.now]

      # The worker's last snapshot, with its age.
      def snapshot = @report&.then { |snapshot, at_s| snapshot.merge("report_age_s" => (Clock.now - at_s).round(3)) }

      def leaving? = @phase == :leaving

      def serving? = @phase == :serving

      # True for a worker that does not serve yet, and for a mold that has not loaded the app.
      def beginning? = @phase == :booting || @phase == :loading

      def to_s = "#{@role == :mold ? "the mold" : "worker #{@index}"}#{" (process #{@pid})" if @pid}"

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

      def to_h
        { role: @role, **KEPT.to_h { |name| [name, public_send(name)] }, descriptor: (@link.socket.fileno unless @link.closed?),
          input: [@link.input].pack("m0"), output: ["#{@link.output}#{@outbox}"].pack("m0") }
      end

      # Restores a member, with its link if that is still open.
      def self.restore(kept)
        input, output = kept.values_at("input", "output").map { |text| text.unpack1("m0") }
        link = kept["descriptor"] ? Link.new(kept["descriptor"], input: input, output: output) : Link.ended
        new(kept.fetch("role").to_sym, link, **KEPT.to_h { |name| [name, kept[name.to_s]] })
      end
    end
  end
end
