# frozen_string_literal: true

# What the supervisor has of a process of its cluster: a mold or a worker. It ends nothing by
# itself.
#
#   mold     :loading ─ "ready" ─► :ready ──────────────────────────► :leaving ─► (ended)
#   worker   :booting ─ "ready" ─► :serving ─ TERM, replaced ───────► :leaving ─► (ended)
#
# A process whose link has come to its end is about to end, or is ended.

require "etc"
require "gyre/clock"
require "gyre/web/cluster/link"
require "gyre/web/metrics"

module Gyre
  module Web
    module Cluster
      # See the head of this file.
      class Member
        PAGE_BYTES = Etc.sysconf(Etc::SC_PAGESIZE)
        private_constant :PAGE_BYTES

        # @return [Symbol] :mold or :worker
        attr_reader :role
        # @return [Integer] a worker's number, from 1 on; 0 for a mold
        attr_reader :index
        # @return [Integer] which load of the app's code it runs, from 1 on
        attr_reader :generation
        # @return [Link]
        attr_reader :link
        # @return [Float] when its process began, on the monotonic clock, in seconds
        attr_reader :started_s
        # @return [Integer, nil] the process; nil until it is known
        attr_reader :pid
        # @return [Symbol] see the head of this file
        attr_accessor :phase
        # @return [Float] when the last message came
        attr_accessor :heard_s
        # @return [Float, nil] when it is ended by KILL
        attr_accessor :leave_until_s
        # @return [Float, nil] since when a mold owes a worker that it was asked for
        attr_accessor :asked_s
        # @return [String, nil] why it is to be replaced
        attr_accessor :replace
        # @return [Gyre::Task, nil] reads the link
        attr_accessor :reader
        # @return [String, nil] why it could not begin, in its own words
        attr_accessor :failure

        # @param role [Symbol]
        # @param link [Link]
        # @param generation [Integer]
        # @param index [Integer]
        # @param pid [Integer, nil]
        # @param phase [Symbol, nil] nil: it begins
        # @param started_s [Float]
        # @param heard_s [Float]
        # @param leave_until_s [Float, nil]
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
        end

        # Its process is there.
        #
        # @param pid [Integer]
        def forked(pid)
          @pid = pid
          @started_s = @heard_s = Clock.now
        end

        # What a worker has sent (Gyre::Web::Server#snapshot).
        #
        # @param snapshot [Hash{String => Object}]
        # @raise [LinkError] it is no snapshot
        def report(snapshot)
          raise LinkError, "a snapshot that cannot be read" unless Metrics.readable?(snapshot)

          @snapshot = snapshot
          @reported_s = Clock.now
        end

        # @return [Hash{String => Object}, nil] what a worker sent last, with its age
        def snapshot = @snapshot&.merge("report_age_s" => (Clock.now - @reported_s).round(3))

        # @return [Boolean]
        def leaving? = @phase == :leaving

        # @return [Boolean] a worker that serves
        def serving? = @phase == :serving

        # @return [Boolean] it has not served or loaded yet
        def beginning? = @phase == :booting || @phase == :loading

        # @return [String] what messages call it
        def to_s = "#{@role == :mold ? "the mold" : "worker #{@index}"}#{" (process #{@pid})" if @pid}"

        # @param name [Symbol, String] of a signal
        # @return [Boolean] false: it has gone, or its process is not known yet
        def signal(name)
          return false unless @pid

          Process.kill(name, @pid)
          true
        rescue Errno::ESRCH, Errno::EPERM
          false
        end

        # @return [Integer, nil] bytes of memory that are resident, those shared with other
        #   processes included; nil where the system has no /proc
        def resident_bytes
          File.read("/proc/#{@pid}/statm").split[1].to_i * PAGE_BYTES if @pid
        rescue SystemCallError
          nil
        end

        # @param status [Process::Status, nil] nil: unknown
        # @return [String] what messages have of a process's end
        def self.end_of(status)
          return "has gone" unless status
          return "was ended by SIG#{Signal.signame(status.termsig)}" if status.signaled?

          "ended with status #{status.exitstatus}"
        end

        # A process that a former program in this process had told to leave.
        #
        # @param pid [Integer]
        # @param limit_s [Float] when it is ended by KILL
        # @return [Member]
        def self.leaving(pid, limit_s) = new(:mold, Link.ended, generation: 0, pid: pid, phase: :leaving, leave_until_s: limit_s)

        # @return [Hash] for JSON
        def to_h
          { role: @role, index: @index, generation: @generation, pid: @pid, phase: @phase, started_s: @started_s, heard_s: @heard_s,
            leave_until_s: @leave_until_s, descriptor: @link.socket.fileno, input: [@link.input].pack("m0") }
        end

        # @param kept [Hash{String => Object}] of {#to_h}, from JSON
        # @return [Member] on the link that is still open, if there is one
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
