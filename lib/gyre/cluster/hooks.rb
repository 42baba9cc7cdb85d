# frozen_string_literal: true

# Calls the configuration file's blocks at events of a worker's life. Used by the mold and by
# workers. Raises the blocks' exceptions with shorter backtraces.

require "gyre/settings"
require "gyre/cluster/traces"

module Gyre
  module Cluster
    class Hooks
      BLOCK = Gyre::Settings::Type.new(nil, "a block") { |value| value if value.respond_to?(:call) }
      row = ->(name, meaning, *also) { Gyre::Settings.row(name, BLOCK, meaning, also: also, list: true, default: []) }
      ROWS = [
        row[:before_fork, "runs in the mold, before each worker is forked", :before_worker_fork, :on_worker_fork],
        row[:after_fork, "runs in the worker, before it serves", :before_worker_start, :before_worker_boot, :on_worker_boot],
        row[:after_worker_start, "runs in the worker as a task of its own, once it serves", :after_worker_boot],
        row[:before_worker_stop, "runs in the worker when it is to end, before it stops accepting connections",
            :before_worker_shutdown, :on_worker_shutdown],
        row[:after_worker_stop, "runs in the worker, after its last request"]
      ].freeze

      def initialize(settings = {})
        @blocks = settings.slice(*ROWS.map(&:name))
      end

      # Calls the event's blocks in order. A block with a parameter gets the worker's number.
      def call(name, index)
        @blocks.fetch(name, []).each { |block| block.arity.zero? ? block.call : block.call(index) }
      rescue StandardError, ScriptError => error
        raise Traces.cut(error, __FILE__)
      end
    end
  end
end
