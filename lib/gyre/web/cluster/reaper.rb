# frozen_string_literal: true

# Takes the exit statuses of all children of this process, orphans of its workers included (see
# Gyre::Orphans): the supervisor's only call of wait. Each child has a block that is given its
# status; a status may come before the child is known.

require "gyre/sync/promise"

module Gyre
  module Web
    module Cluster
      # See the head of this file.
      class Reaper
        # Statuses that are kept for children which become known later.
        STRAYS_LIMIT = 100
        private_constant :STRAYS_LIMIT

        def initialize
          @blocks = {}
          @strays = {}
        end

        # @return [Boolean] whether this process hears of the ends of orphans
        attr_reader :adopts

        # @return [void]
        def adopt_orphans
          @adopts = Orphans.adopt
        end

        # @param pid [Integer]
        # @yieldparam status [Process::Status] once; at once when it has ended already
        # @return [void]
        def watch(pid, &block)
          status = @strays.delete(pid)
          status = nil if status && runs?(pid) # an earlier process had the same number
          status ? block.call(status) : @blocks[pid] = block
        end

        # Takes what has ended; called after SIGCHLD, and now and then.
        #
        # @return [void]
        def reap
          while (found = Process.wait2(-1, Process::WNOHANG))
            pid, status = found
            block = @blocks.delete(pid)
            next block.call(status) if block

            @strays[pid] = status
            @strays.shift if @strays.size > STRAYS_LIMIT
          end
        rescue Errno::ECHILD
          nil # there are none
        end

        # Runs a program and waits for its end.
        #
        # @param command [Array] as Process.spawn takes it
        # @param limit_s [Numeric] after which it is killed
        # @return [Process::Status]
        # @raise [SystemCallError]
        def run(*command, limit_s:, **options)
          promise = Promise.new
          pid = Process.spawn(*command, **options)
          watch(pid) { |status| promise.resolve(status) }
          promise.wait(timeout: limit_s)
        rescue TimeoutError
          Process.kill(:KILL, pid)
          promise.wait
        end

        private

        def runs?(pid)
          Process.kill(0, pid) == 1
        rescue Errno::ESRCH
          false
        rescue Errno::EPERM
          true
        end
      end
    end
  end
end
