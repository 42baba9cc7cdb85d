# frozen_string_literal: true

# What a supervisor leaves to the fresh program that takes its place in the same process (USR2):
# listening sockets, and its processes with their links. Gyre::CLI::ServeWorkers calls it on both
# sides; Gyre::CLI::Successor has how it gets there.

require "json"
require "gyre/cli/successor"
require "gyre/web/sockets"

module Gyre
  module Web
    module Cluster
      # One handing over, as the fresh program sees it.
      class Handover
        # Signals that mean something to a supervisor and would end a process that has not trapped
        # them yet.
        SIGNALS = %w[HUP USR1 USR2 QUIT TTIN TTOU].freeze

        # @return [Handover, nil] nil after an ordinary start
        def self.receive
          new(*CLI::Successor.receive) if CLI::Successor.pending?
        end

        # @param text [String]
        # @param signals [Array<Integer>] to end, that came meanwhile
        def initialize(text, signals)
          @left = JSON.parse(text)
          @signals = signals
        end

        # @return [Boolean] whether a signal to end came meanwhile
        def signalled? = @signals.any?

        # @return [Hash] for {Supervisor#initialize}
        def former = @left.fetch("supervisor")

        # @param name [Symbol] of a set
        # @return [Array<Sockets::Inherited>]
        def sockets(name) = Sockets.from(@left.fetch("sets").fetch(name.to_s, []))

        # Closes a socket that the fresh settings do not name.
        #
        # @param socket [Sockets::Inherited]
        # @return [void]
        def self.close(socket) = Sockets.new.tap { |sockets| sockets.adopt(socket) }.listeners.each(&:close)

        # Starts the fresh program; returns only by an exception, and everything is as before then.
        #
        # @param supervisor [Supervisor]
        # @param sets [Hash{Symbol => Sockets}]
        # @param command [Array] as Process.exec takes it
        # @param keep [Array<IO>] what else stays open
        # @param options [Hash] as Process.exec takes them
        # @raise [SystemCallError]
        def self.exec(supervisor, sets, command, keep: [], **options)
          staying = supervisor.settle
          ios = staying.map { |member| member.link.socket } + sets.values.flat_map(&:listeners).map(&:socket) + keep
          text = JSON.generate(supervisor: supervisor.to_h, sets: sets.transform_values(&:to_a))
          CLI::Successor.exec(text, ios, command, signals: SIGNALS, **options)
        end
      end
    end
  end
end
