# frozen_string_literal: true

# Takes the exit statuses of all children, including workers' orphans (Gyre::Orphans), by the
# supervisor's only call of wait. Passes a child's status to its block, which may come later.

require "gyre/sync/promise"
require "gyre/web/process_number"

module Gyre
  module Web
    module Cluster
      class Reaper
        # Statuses of children without a block.
        STRAYS_LIMIT = 100

        def initialize
          @blocks = {}
          @strays = {}
        end

        attr_reader :adopts # whether this process hears of the ends of orphans

        def adopt_orphans = @adopts = Orphans.adopt

        # Yields the status once, now or later.
        def watch(pid, &block)
          status = @strays.delete(pid)
          status = nil if status && ProcessNumber.taken?(pid) # an earlier process with the same number
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

        # Runs a program to its end; kills it after `limit_s`.
        def run(*command, limit_s:, **options)
          promise = Promise.new
          pid = Process.spawn(*command, **options)
          watch(pid) { |status| promise.resolve(status) }
          promise.wait(timeout: limit_s)
        rescue TimeoutError
          Process.kill(:KILL, pid)
          promise.wait
        end
      end
    end
  end
end
