# frozen_string_literal: true

# Blocks of the configuration file that run at moments of a worker's life. Gyre::Web::Config fills
# it; the mold and the workers call it. What a block raises is the caller's.

require "gyre/web/traces"

module Gyre
  module Web
    module Cluster
      # The blocks of one configuration.
      class Hooks
        # A moment: its word in the configuration file, other words for it, and when it is.
        Row = Struct.new(:name, :aliases, :meaning)

        TABLE = [
          Row.new(:before_fork, %i[before_worker_fork on_worker_fork], "in the mold, before each worker is forked"),
          Row.new(:after_fork, %i[before_worker_start before_worker_boot on_worker_boot], "in the worker, before it serves"),
          Row.new(:after_worker_start, %i[after_worker_boot], "in the worker, once it serves, as a task of its own"),
          Row.new(:before_worker_stop, %i[before_worker_shutdown on_worker_shutdown],
                  "in the worker, when it is to end and before it stops taking connections"),
          Row.new(:after_worker_stop, [], "in the worker, after its last request")
        ].each(&:freeze).freeze

        # @param name [Symbol] of a row, or another word for it
        # @return [Row]
        def self.find(name) = TABLE.find { |row| row.name == name || row.aliases.include?(name) }

        def initialize
          @blocks = Hash.new { |hash, name| hash[name] = [] }
        end

        # @param name [Symbol] of a row, or another word for it
        # @param block [Proc] takes the worker's number, or nothing
        # @return [void]
        def add(name, block)
          @blocks[self.class.find(name).name] << block
        end

        # @param name [Symbol] of a row
        # @return [Boolean]
        def any?(name) = @blocks.key?(name)

        # Calls the blocks in the order in which they stand in the file.
        #
        # @param name [Symbol] of a row
        # @param index [Integer] the worker's number, from 1 on
        # @return [void]
        # @raise what a block raises, with the block's own part of its trace
        def call(name, index)
          @blocks.fetch(name, []).each { |block| block.arity.zero? ? block.call : block.call(index) }
        rescue StandardError, ScriptError => error
          raise Traces.cut(error, __FILE__)
        end
      end
    end
  end
end
