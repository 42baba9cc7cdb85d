# frozen_string_literal: true

# Hands sockets, files and children with their links to the program that replaces this one (USR2). A
# rehearsal in a child gets no links, because its copy of a link would keep the link open. Called by
# Gyre::CLI::Serve and Launcher; the exec itself is in Gyre::CLI::Successor.

require "json"
require "gyre/cli/process/successor"
require "gyre/cluster/sockets"

module Gyre
  module CLI
    # The former program's state, as the new program receives it.
    class Handover
      # Signals that the supervisor handles; each would end a program that has not trapped it yet.
      SIGNALS = %w[HUP USR1 USR2 QUIT TTIN TTOU].freeze

      # Called before any code of the app runs. Returns nil after an ordinary start.
      def self.receive
        rehearsal = Successor.rehearsed?
        new(*Successor.receive, rehearsal: rehearsal) if rehearsal || Successor.pending?
      end

      # In a `rehearsal`, sockets and files still belong to the parent.
      def initialize(text, signals, rehearsal: false)
        @left = JSON.parse(text)
        @signals = signals
        @rehearsal = rehearsal
        all = former.fetch("members") + former["publishers"].to_a + @left.fetch("sets").values.flatten(1)
        Cluster::Sockets.keep_private(all.filter_map { |each| each["descriptor"] })
      end

      def rehearsal? = @rehearsal

      # Called once the supervisor handles signals.
      def signal_again = Successor.signal_again(@signals)

      def former = @left.fetch("supervisor")

      def sockets(name) = Cluster::Sockets.from(@left.fetch("sets").fetch(name.to_s, []), owned: !@rehearsal)

      def secrets = @left["secrets"]

      # Returns the path at which the former program wrote the file `name`.
      def file(name) = @left.fetch("files")[name.to_s]

      # Executes the new program. Returns only by an exception; the supervisor then continues.
      def self.exec(supervisor, sets, files, command, secrets: nil, **options)
        supervisor.settle
        text, ios = pack(supervisor.to_h, sets, files, secrets)
        Successor.exec(text, supervisor.crew.sockets + ios, command, signals: SIGNALS, **options)
      end

      # Yields the environment and descriptors for a rehearsal.
      def self.lend(supervisor, sets, files, &block)
        former = supervisor.to_h
        members = former.fetch(:members).map { |member| member.merge(descriptor: nil) }
        Successor.lend(*pack({ **former, members: members, publishers: [] }, sets, files), &block)
      end

      def self.pack(former, sets, files, secrets = nil)
        text = JSON.generate(supervisor: former, sets: sets.transform_values(&:to_a), files: files, secrets: secrets)
        [text, sets.values.flat_map(&:listeners).map(&:socket)]
      end
    end
  end
end
