# frozen_string_literal: true

# A program beside the workers, such as a job queue. It is started when all workers serve, and again
# after its end or after a restart. Its own process group keeps the terminal's signals away.
#
#   absent ─ supply ─► running ─ renew, stop: TERM ─► leaving ─ the time is over: KILL ─► absent
#     ▲                   │ it ends: respawn                                                │
#     └───────────────────┴────────────────────────────── (not after stop) ─────────────────┘

require "gyre/clock"
require "gyre/cluster/respawn"
require "gyre/cluster/member"
require "shellwords"

module Gyre
  module Cluster
    class Program
      # Returns the program's name if the program is missing, otherwise nil.
      def self.missing(command)
        word = Shellwords.split(command).first
        places = word.include?("/") ? [word] : ENV["PATH"].to_s.split(File::PATH_SEPARATOR).map { |folder| File.join(folder, word) }
        word unless places.any? { |path| File.file?(path) && File.executable?(path) }
      end

      attr_reader :command
      attr_reader :pid

      # The block starts the program as the leader of a process group, and returns the pid.
      # `shutdown_timeout`: seconds for the program to end after TERM.
      def initialize(command, log:, reaper:, shutdown_timeout:, &spawn)
        @command = command
        @log = log
        @reaper = reaper
        @shutdown_timeout_s = shutdown_timeout
        @spawn = spawn
        @respawn = Respawn.new
      end

      # Takes over a process that a former supervisor started; unless `wanted`, {#supply} ends it.
      def restore(kept, wanted: true)
        @pid, @started_s, @leave_until_s = kept.values_at("pid", "started_s", "leave_until_s")
        @stopped = !wanted
        self
      end

      def watch
        @reaper.watch(@pid) { |status| ended(status) } if @pid
      end

      # Starts the program if it does not run; ends it if it is not wanted.
      def supply
        return leave(@shutdown_timeout_s) if @stopped
        return if @pid || !@respawn.over?(Clock.now)

        @started_s = Clock.now
        @pid = @spawn.call(Shellwords.split(@command))
        watch
        @log.info("#{self} runs beside the workers")
      rescue SystemCallError => error
        @log.error("#{@command} cannot be started: #{error.message}#{again}")
      end

      # Ends the process; {#supply} then starts the program again.
      def renew
        @respawn.reset
        leave(@shutdown_timeout_s)
      end

      # Ends the program for good. If `now`, it has only Member::GRACE_S to end.
      def stop(now: false)
        @stopped = true
        leave(now ? 0 : @shutdown_timeout_s)
      end

      def tick
        return unless @leave_until_s && Clock.now > @leave_until_s

        @log.error("#{self} does not end; it is killed")
        @leave_until_s = Clock.now + Member::GRACE_S
        Member.signal(:KILL, -@pid)
      end

      def to_s = "#{@command}#{" (process #{@pid})" if @pid}"

      def to_h = { command: @command, pid: @pid, started_s: @started_s, leave_until_s: @leave_until_s }

      private

      def leave(limit_s)
        return unless @pid

        Member.signal(:TERM, @pid) unless @leave_until_s
        @leave_until_s = [@leave_until_s, Clock.now + limit_s + Member::GRACE_S].compact.min
      end

      def ended(status)
        @log.error("#{self} #{Member.end_of(status)}#{again}") unless @leave_until_s
        @pid = @leave_until_s = nil
      end

      def again
        later = @respawn.died(Clock.now - @started_s, Clock.now)
        "; it is started again#{" in #{later} s" if later.positive?}"
      end
    end
  end
end
