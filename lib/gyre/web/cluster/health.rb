# frozen_string_literal: true

# What the supervisor expects of its processes: a sign once in a while, an end in time, bounded
# memory. It looks and judges; the supervisor acts.

require "gyre/web/cluster/member"

module Gyre
  module Web
    module Cluster
      # The limits of one cluster.
      class Health
        # What prints its tasks before it is killed gets so long for that.
        LAST_WORDS_S = 1
        private_constant :LAST_WORDS_S

        # @param worker_timeout [Numeric] seconds without a sign
        # @param worker_boot_timeout [Numeric] seconds from a worker's fork until it serves; and
        #   that a mold has to load the app, and to fork a worker
        # @param worker_memory_limit [Integer, nil] resident bytes
        def initialize(worker_timeout: 60, worker_boot_timeout: 60, worker_memory_limit: nil)
          @worker_timeout_s = worker_timeout
          @worker_boot_timeout_s = worker_boot_timeout
          @worker_memory_limit = worker_memory_limit
        end

        # @param member [Member]
        # @param now [Float]
        # @return [Array(Symbol, String), nil] what is to be done with it, and why: :kill, :replace,
        #   or :ask, to have it print its tasks; nil: all is well
        def check(member, now)
          return [:kill, "does not end"] if member.leave_until_s && now > member.leave_until_s
          return mold(member, now) if member.role == :mold
          return if member.pid.nil? # its mold is timed
          return booting(member, now) if member.phase == :booting

          silent_s = now - member.heard_s
          return [:kill, "gave no sign for #{@worker_timeout_s} s"] if silent_s > @worker_timeout_s + LAST_WORDS_S
          return [:ask, "gives no sign"] if silent_s > @worker_timeout_s

          memory(member) if @worker_memory_limit && member.serving? && !member.replace
        end

        private

        def mold(member, now)
          what, since_s = member.phase == :loading ? ["load the app", member.started_s] : ["fork a worker", member.asked_s]
          [:kill, "did not #{what} within #{@worker_boot_timeout_s} s"] if since_s && now - since_s > @worker_boot_timeout_s
        end

        def booting(member, now)
          [:kill, "did not start within #{@worker_boot_timeout_s} s"] if now - member.started_s > @worker_boot_timeout_s
        end

        def memory(member)
          bytes = member.resident_bytes
          return unless bytes && bytes > @worker_memory_limit

          [:replace, "has #{bytes >> 20} MB of memory, more than #{@worker_memory_limit >> 20} MB; it is replaced after its requests"]
        end
      end
    end
  end
end
