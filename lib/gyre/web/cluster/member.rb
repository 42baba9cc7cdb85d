# frozen_string_literal: true

# A process of a cluster as the supervisor sees it: a mold or a worker.
#
#   mold     :loading ─ "ready" ─► :ready ──────────────────────────► :leaving ─► (ended)
#   worker   :booting ─ "ready" ─► :serving ─ TERM, replaced ───────► :leaving ─► (ended)
#
# A process whose link has come to its end is about to end, or is ended.

require "etc"
require "gyre/clock"
require "gyre/web/cluster/link"
require "gyre/web/control/metrics"

module Gyre
  module Web
    module Cluster
      class Member
        PAGE_BYTES = Etc.sysconf(Etc::SC_PAGESIZE)
        # Seconds beyond a process's own limit, before KILL.
        GRACE_S = 5
        # A mold's: workers that it was asked for, and when it was asked or has answered last.
        Debt = Struct.new(:workers, :since_s)
        private_constant :PAGE_BYTES, :GRACE_S, :Debt

        attr_reader :role # :mold or :worker
        attr_reader :index # a worker's number, from 1; 0 for a mold
        attr_reader :generation # which load of the app's code it runs, from 1
        attr_reader :link
        attr_reader :started_s # monotonic
        attr_reader :pid # nil until known
        attr_accessor :phase # see the state machine above
        attr_accessor :heard_s # when the last message came
        attr_accessor :leave_until_s # when KILL ends it
        attr_accessor :trouble # why it could not begin, or is to be replaced

        def initialize(role, link, generation:, index: 0, pid: nil, phase: nil, started_s: Clock.now, heard_s: Clock.now,
                       leave_until_s: nil)
          @role = role
          @link = link
          @generation = generation
          @index = index
          @pid = pid
          @phase = phase || (role == :mold ? :loading : :booting)
          @started_s = started_s
          @heard_s = heard_s
          @leave_until_s = leave_until_s
          @debt = Debt.new([], nil)
        end

        # Has a mold fork a worker, which gets the socket. Raises LinkError.
        def ask_fork(worker, socket)
          @link.send({ fork: worker.index, generation: worker.generation }, socket)
          @debt.workers << worker
          @debt.since_s ||= Clock.now
        end

        # The worker that a mold was asked for first.
        def answered = @debt.workers.shift.tap { @debt.since_s = @debt.workers.empty? ? nil : Clock.now }

        # Workers that a mold still owes.
        def owed = @debt.workers

        def owes_since_s = @debt.since_s

        # Has a worker end after its requests.
        def leave(within_s)
          return if leaving?

          @phase = :leaving
          @leave_until_s = Clock.now + within_s + GRACE_S
          signal(:TERM)
        end

        # Has a worker end at once.
        def hurry
          @phase = :leaving
          @leave_until_s = Clock.now + GRACE_S
          @link.send({ stop: "now" })
        rescue LinkError
          nil # it has gone
        end

        # Ends a mold by the end of its link.
        def dismiss
          return if leaving?

          @phase = :leaving
          expect_end
          @link.close
        end

        # False if it has gone.
        def kill = signal(:KILL) && (@leave_until_s = Clock.now + GRACE_S)

        # It is about to end.
        def expect_end = @leave_until_s = [@leave_until_s, Clock.now + GRACE_S].compact.min

        # Its process is there.
        def forked(pid)
          @pid = pid
          @started_s = @heard_s = Clock.now
        end

        # Takes a worker's Gyre::Web::Server#snapshot; raises LinkError for anything else.
        def report(snapshot)
          raise LinkError, "a snapshot that cannot be read" unless Metrics.readable?(snapshot)

          @report = [snapshot, Clock.now]
        end

        # The worker's last, with its age.
        def snapshot = @report&.then { |snapshot, at_s| snapshot.merge("report_age_s" => (Clock.now - at_s).round(3)) }

        def leaving? = @phase == :leaving

        def serving? = @phase == :serving

        # True if it has not served or loaded yet.
        def beginning? = @phase == :booting || @phase == :loading

        def to_s = "#{@role == :mold ? "the mold" : "worker #{@index}"}#{" (process #{@pid})" if @pid}"

        # False if it has gone or its process is not known yet.
        def signal(name)
          return false unless @pid

          Process.kill(name, @pid)
          true
        rescue Errno::ESRCH, Errno::EPERM
          false
        end

        # Includes shared memory; nil without /proc.
        def resident_bytes
          File.read("/proc/#{@pid}/statm").split[1].to_i * PAGE_BYTES if @pid
        rescue SystemCallError
          nil
        end

        # nil means unknown.
        def self.end_of(status)
          return "has gone" unless status
          return "was ended by SIG#{Signal.signame(status.termsig)}" if status.signaled?

          "ended with status #{status.exitstatus}"
        end

        # A process that a former program in this process had told to leave. `limit_s` is when KILL
        # ends it.
        def self.leaving(pid, limit_s) = new(:mold, Link.ended, generation: 0, pid: pid, phase: :leaving, leave_until_s: limit_s)

        def to_h
          { role: @role, index: @index, generation: @generation, pid: @pid, phase: @phase, started_s: @started_s, heard_s: @heard_s,
            leave_until_s: @leave_until_s, descriptor: @link.socket.fileno, input: [@link.input].pack("m0") }
        end

        # On the link that is still open, if any.
        def self.restore(kept)
          link = kept["descriptor"] ? Link.new(kept["descriptor"], input: kept.fetch("input").unpack1("m0")) : Link.ended
          new(kept.fetch("role").to_sym, link, generation: kept["generation"], index: kept["index"], pid: kept["pid"],
                                               phase: kept["phase"].to_sym, started_s: kept["started_s"], heard_s: kept["heard_s"],
                                               leave_until_s: kept["leave_until_s"])
        end
      end
    end
  end
end
