# frozen_string_literal: true

# What a supervisor leaves to the fresh program that takes its place in the same process (USR2):
# listening sockets, files, and its processes with their links. The program is given the same
# before, in a child, to rehearse with; but for the links, whose end the processes are to notice.
# Gyre::CLI::Serve and ServeWorkers call it; Gyre::CLI::Successor has how it gets there.

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

        # Called before any code of the user's, which may start programs.
        #
        # @return [Handover, nil] nil after an ordinary start
        def self.receive
          rehearsal = CLI::Successor.rehearsed?
          new(*CLI::Successor.receive, rehearsal: rehearsal) if rehearsal || CLI::Successor.pending?
        end

        # @param text [String]
        # @param signals [Array<Integer>] to end, that came meanwhile
        # @param rehearsal [Boolean] all of it is the parent's, and stays as it is
        def initialize(text, signals, rehearsal: false)
          @left = JSON.parse(text)
          @signals = signals
          @rehearsal = rehearsal
          all = former.fetch("members") + @left.fetch("sets").values.flatten(1)
          Sockets.keep_private(all.filter_map { |each| each["descriptor"] })
        end

        # @return [Boolean]
        def rehearsal? = @rehearsal

        # @return [Boolean] whether a signal to end came meanwhile
        def signalled? = @signals.any?

        # @return [Hash] for {Supervisor#initialize}
        def former = @left.fetch("supervisor")

        # @param name [Symbol] of a set
        # @return [Array<Sockets::Inherited>]
        def sockets(name) = Sockets.from(@left.fetch("sets").fetch(name.to_s, []), owned: !@rehearsal)

        # @param name [Symbol] of a file
        # @param path [String, nil] where the fresh settings have it
        # @return [String, nil] where the former program has written it
        def file(name, path) = @left.fetch("files", { name.to_s => path })[name.to_s] # older programs tell of none

        # Starts the fresh program; returns only by an exception, and everything is as before then.
        #
        # @param supervisor [Supervisor]
        # @param sets [Hash{Symbol => Sockets}]
        # @param files [Hash{Symbol => String, nil}]
        # @param command [Array] as Process.exec takes it
        # @param keep [Array<IO>] what else stays open
        # @param options [Hash] as Process.exec takes them
        # @raise [SystemCallError]
        def self.exec(supervisor, sets, files, command, keep: [], **options)
          supervisor.settle
          text, ios = pack(supervisor.to_h, sets, files)
          CLI::Successor.exec(text, supervisor.sockets + ios + keep, command, signals: SIGNALS, **options)
        end

        # For a rehearsal.
        #
        # @param (see .exec)
        # @yieldparam environment [Hash{String => String}] for the child
        # @yieldparam descriptors [Hash{Integer => Integer}] for Process.spawn
        # @return [Object] what the block returns
        def self.lend(supervisor, sets, files, &block)
          former = supervisor.to_h
          members = former.fetch(:members).map { |member| member.merge(descriptor: nil) }
          CLI::Successor.lend(*pack({ **former, members: members }, sets, files), &block)
        end

        def self.pack(former, sets, files)
          text = JSON.generate(supervisor: former, sets: sets.transform_values(&:to_a), files: files)
          [text, sets.values.flat_map(&:listeners).map(&:socket)]
        end
        private_class_method :pack
      end
    end
  end
end
