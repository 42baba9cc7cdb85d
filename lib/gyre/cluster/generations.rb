# frozen_string_literal: true

# Keeps a cluster's molds and decides which load of the app's code is current. Ends no process.
#
#   loading ─ "ready" ─► current ─ the next one is ready ─► former ─ a worker of the next serves ─► dropped
#      └ it fails: dropped   ▲                                 │
#                            └── a worker of the next dies ────┘

require "gyre/clock"
require "gyre/cluster/respawn"
require "gyre/cluster/member"

module Gyre
  module Cluster
    # `current`, `former` and `loading` are molds (Member::Mold), or nil.
    class Generations
      attr_reader :current, :former, :loading
      attr_reader :number # of the load that is current, from 1
      attr_reader :respawn # delays the mold that takes a dead one's place

      # `spawn` starts a mold and returns its {Link} and pid.
      def initialize(crew, spawn)
        @crew = crew
        @spawn = spawn
        @number = 1
        @respawn = Respawn.new
      end

      # Restores a former program's molds.
      def restore(former)
        @number = former.fetch("generation")
        @current = @crew.molds.find { |mold| mold.pid == former["current"] }
      end

      def missing? = @current.nil? && @loading.nil? && @respawn.over?(Clock.now)

      def load(number)
        link, pid = @spawn.call
        @loading = Member::Mold.new(link, generation: number, pid: pid)
        @crew.add(@loading)
      end

      def ready(mold)
        mold.phase = :ready
        @respawn.reset
        @former = @current if @current
        @current = mold
        @loading = nil
        @number = mold.generation
      end

      def drop(mold)
        @current = nil if mold.equal?(@current)
        @former = nil if mold.equal?(@former)
        @loading = nil if mold.equal?(@loading)
      end

      # Makes the former mold current again. Returns the mold that was current until then.
      def roll_back
        broken = @current
        @current = @former
        @former = nil
        broken
      end

      # True for a worker with the newest code while the former mold exists.
      def on_trial?(worker) = !@former.nil? && worker.generation == @current&.generation
    end
  end
end
