# frozen_string_literal: true

# A program that runs beside the workers, as a job queue's: the supervisor starts it when they
# serve, starts it again when it ends, replaces it when a restart has brought other code, and ends
# it with the server. It hears signals of the supervisor only, in a process group of its own.
#
#   absent ─ supply ─► running ─ renew, stop: TERM ─► leaving ─ the time is over: KILL ─► absent
#     ▲                   │ it ends: back-off                                               │
#     └───────────────────┴────────────────────────────── (not after stop) ─────────────────┘

require "gyre/clock"
require "gyre/web/cluster/backoff"
require "gyre/web/cluster/member"
require "shellwords"

module Gyre
  module Web
    module Cluster
      # See the head of this file.
      class Program
        # What it gets beyond the limit, before KILL.
        GRACE_S = 5
        private_constant :GRACE_S

        # @param command [String] words as a shell has them
        # @return [String, nil] the program, if it is not there
        def self.missing(command)
          word = Shellwords.split(command).first
          places = word.include?("/") ? [word] : ENV["PATH"].to_s.split(File::PATH_SEPARATOR).map { |folder| File.join(folder, word) }
          word unless places.any? { |path| File.file?(path) && File.executable?(path) }
        end

        # @return [String]
        attr_reader :command
        # @return [Integer, nil] its process
        attr_reader :pid

        # @param command [String] words as a shell has them
        # @param log [#info, #error]
        # @param reaper [Reaper]
        # @param shutdown_timeout [Numeric] what it has to end after TERM, seconds
        # @yieldparam words [Array<String>]
        # @yieldreturn [Integer] its process, which leads a group
        def initialize(command, log:, reaper:, shutdown_timeout:, &spawn)
          @command = command
          @log = log
          @reaper = reaper
          @shutdown_timeout_s = shutdown_timeout
          @spawn = spawn
          @backoff = Backoff.new
        end

        # Goes on with one that a former program in this process has started.
        #
        # @param kept [Hash{String => Object}] of {#to_h}, from JSON
        # @param wanted [Boolean] false: it is ended when the supervisor runs
        # @return [self]
        def restore(kept, wanted: true)
          @pid, @started_s, @leave_until_s = kept.values_at("pid", "started_s", "leave_until_s")
          @stopped = !wanted
          self
        end

        # @return [void]
        def watch
          @reaper.watch(@pid) { |status| ended(status) } if @pid
        end

        # Starts it, unless it runs, or its time has not come; ends it, if it is not wanted.
        #
        # @return [void]
        def supply
          return leave(@shutdown_timeout_s) if @stopped
          return if @pid || !@backoff.over?(Clock.now)

          @started_s = Clock.now
          @pid = @spawn.call(Shellwords.split(@command))
          watch
          @log.info("#{self} runs beside the workers")
        rescue SystemCallError => error
          @log.error("#{@command} cannot be started: #{error.message}#{again}")
        end

        # Ends it; {#supply} starts it again.
        #
        # @return [void]
        def renew
          @backoff.reset
          leave(@shutdown_timeout_s)
        end

        # Ends it for good.
        #
        # @param now [Boolean] in little time
        # @return [void]
        def stop(now: false)
          @stopped = true
          leave(now ? 0 : @shutdown_timeout_s)
        end

        # Kills one that has not ended in time, with what it has started.
        #
        # @return [void]
        def tick
          return unless @leave_until_s && Clock.now > @leave_until_s

          @log.error("#{self} does not end; it is killed")
          @leave_until_s = Clock.now + GRACE_S
          signal(:KILL, -@pid)
        end

        # @return [String] what messages call it
        def to_s = "#{@command}#{" (process #{@pid})" if @pid}"

        # @return [Hash] for JSON
        def to_h = { command: @command, pid: @pid, started_s: @started_s, leave_until_s: @leave_until_s }

        private

        def leave(limit_s)
          return unless @pid

          signal(:TERM, @pid) unless @leave_until_s
          @leave_until_s = [@leave_until_s, Clock.now + limit_s + GRACE_S].compact.min
        end

        def ended(status)
          @log.error("#{self} #{Member.end_of(status)}#{again}") unless @leave_until_s
          @pid = @leave_until_s = nil
        end

        def again
          later = @backoff.died(Clock.now - @started_s, Clock.now)
          "; it is started again#{" in #{later} s" if later.positive?}"
        end

        def signal(name, target)
          Process.kill(name, target)
        rescue Errno::ESRCH, Errno::EPERM
          nil # it has ended
        end
      end
    end
  end
end
