# frozen_string_literal: true

# Hands sockets, files and child processes with their links to the program that replaces this one
# (USR2). A rehearsal in a child gets the same except the links, so that the processes notice when a
# link ends. Called by Gyre::CLI::Serve and ServeWorkers; Gyre::CLI::Successor executes the program.

require "json"
require "gyre/cli/process/successor"
require "gyre/web/sockets"

module Gyre
  module CLI
    # A handover as the new program sees it.
    class Handover
      # Signals for the supervisor. Each would end a process that has not trapped it yet.
      SIGNALS = %w[HUP USR1 USR2 QUIT TTIN TTOU].freeze

      # Reads the handover before user code runs. Returns nil after an ordinary start.
      def self.receive
        rehearsal = Successor.rehearsed?
        new(*Successor.receive, rehearsal: rehearsal) if rehearsal || Successor.pending?
      end

      # `rehearsal` leaves everything to the parent.
      def initialize(text, signals, rehearsal: false)
        @left = JSON.parse(text)
        @signals = signals
        @rehearsal = rehearsal
        all = former.fetch("members") + @left.fetch("sets").values.flatten(1)
        Web::Sockets.keep_private(all.filter_map { |each| each["descriptor"] })
      end

      def rehearsal? = @rehearsal

      def signalled? = @signals.any?

      def former = @left.fetch("supervisor")

      def sockets(name) = Web::Sockets.from(@left.fetch("sets").fetch(name.to_s, []), owned: !@rehearsal)

      # Returns where the former program wrote the file; `path` comes from the new settings.
      def file(name, path) = @left.fetch("files", { name.to_s => path })[name.to_s] # older programs do not name files

      # Starts the new program. Returns only by an exception, after which nothing has changed.
      # `keep` stays open.
      def self.exec(supervisor, sets, files, command, keep: [], **options)
        supervisor.settle
        text, ios = pack(supervisor.to_h, sets, files)
        Successor.exec(text, supervisor.sockets + ios + keep, command, signals: SIGNALS, **options)
      end

      # Yields a rehearsal's environment, and descriptors for Process.spawn.
      def self.lend(supervisor, sets, files, &block)
        former = supervisor.to_h
        members = former.fetch(:members).map { |member| member.merge(descriptor: nil) }
        Successor.lend(*pack({ **former, members: members }, sets, files), &block)
      end

      def self.pack(former, sets, files)
        text = JSON.generate(supervisor: former, sets: sets.transform_values(&:to_a), files: files)
        [text, sets.values.flat_map(&:listeners).map(&:socket)]
      end
      private_class_method :pack
    end
  end
end
