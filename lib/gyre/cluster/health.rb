# frozen_string_literal: true

# Checks limits of a cluster's processes: silence, times to start and end, memory. Ends no process.

require "gyre/cluster/respawn"

module Gyre
  module Cluster
    class Health
      LAST_WORDS_S = 1

      # `worker_timeout`: seconds without a sign of life; `worker_boot_timeout`: seconds to become
      # ready, and for a mold to fork; `load_timeout`: seconds for a mold to load the app;
      # `worker_memory_limit`: resident bytes.
      def initialize(worker_timeout: 60, worker_boot_timeout: 60, load_timeout: 300, worker_memory_limit: nil)
        @worker_timeout_s = worker_timeout
        @limits = { worker_boot_timeout: worker_boot_timeout, load_timeout: load_timeout }
        @worker_memory_limit = worker_memory_limit
        @growth = Respawn.new
      end

      # Extends the members' limits by the time in which the supervisor itself did not run.
      def excuse(members, now, tick_s)
        late_s = @ticked_s ? now - @ticked_s - tick_s : 0
        @ticked_s = now
        members.each { |member| member.heard_s += late_s } if late_s > tick_s
      end

      # Returns the reason to replace a worker, for the log. Delays the next replacement, because
      # the limit may be too small for any worker.
      def outgrown(why, lived_s, now)
        later = @growth.died(lived_s, now)
        young = "; the limit is too small for this app: it has been there for #{lived_s.round} s" if lived_s < Respawn::SOUND_S
        "#{why}#{young}#{"; the next try is in #{later} s" if later.positive?}"
      end

      def may_replace?(now) = @growth.over?(now)

      # Returns :kill, :replace or :ask (to print tasks) with the reason; nil if all is well.
      def check(member, now)
        return [:kill, "does not end"] if member.leave_until_s && now > member.leave_until_s
        return if member.pid.nil? # its mold's time to fork is limited instead

        what, since_s, name = member.duty
        return [:kill, "did not #{what} within #{@limits[name]} s (#{name})"] if since_s && now - since_s > @limits[name]
        return if what

        silent_s = now - member.heard_s
        return [:kill, "gave no sign for #{@worker_timeout_s} s"] if silent_s > @worker_timeout_s + LAST_WORDS_S
        return [:ask, "gives no sign"] if silent_s > @worker_timeout_s

        memory(member) if @worker_memory_limit && member.serving? && !member.trouble
      end

      private

      def memory(member)
        bytes = member.resident_bytes
        return unless bytes && bytes > @worker_memory_limit

        [:replace, "has #{bytes >> 20} MB of memory, more than #{@worker_memory_limit >> 20} MB; it is replaced after its requests"]
      end
    end
  end
end
