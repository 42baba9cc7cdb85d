# frozen_string_literal: true

# Starts programs for a server, in the folder where it was started: molds, programs beside the
# workers, and after USR2 the next program, which is first rehearsed in a child.

require "gyre/cli/process/restart"
require "gyre/cli/process/successor"
require "gyre/net/tls"
require "gyre/cluster/mold"

module Gyre
  module CLI
    class Launcher
      # Signals that a server handles; each would end a program that has not trapped it yet.
      SIGNALS = %w[HUP USR1 USR2 QUIT TTIN TTOU].freeze

      # `name` begins the program's messages.
      def initialize(name, holdings)
        @name, @holdings = name, holdings
        @command = Restart.command
        @real_folder = real_folder
        @folder = named_folder
      end

      # Starts a mold for Supervisor.
      def spawn_mold
        Cluster::Mold.spawn(@command, @holdings.sets.fetch(:sockets), environment: first_environment, secrets: ticket_keys, chdir: @folder)
      end

      # Starts a program for Supervisor, with the socket for its broadcasts; returns its pid.
      def spawn_program(words, socket)
        environment = { **Cluster::Mold::SUPERVISORS_OWN, **Broadcast::Uplink.environment(socket), **bundle_environment }
        Process.spawn(environment, [words.first, words.first], *words.drop(1), chdir: @folder, close_others: true, pgroup: true,
                                                                               socket.fileno => socket.fileno)
      end

      # Executes the next program in this process, after a rehearsal in a child and the block.
      # Returns the reason if anything fails. The child gets no links: its copy of a link would keep
      # the link open.
      def replace(supervisor = nil)
        sockets = @holdings.sets.values.flat_map(&:listeners).map(&:socket)
        run = supervisor ? supervisor.crew.reaper.method(:run) : Successor.method(:run)
        successor = Successor.new(@name, command: @command, environment: bundle_environment, signals: SIGNALS, run: run, chdir: @folder)
        successor.rehearse(left(supervisor&.to_h(links: false)), sockets) || begin
          yield if block_given?
          supervisor&.settle
          successor.exec({ **left(supervisor&.to_h), secrets: ticket_keys }, [*supervisor&.crew&.sockets, *sockets])
        end
      rescue StandardError => error
        error.is_a?(SystemCallError) ? error.message : "#{error.message} (#{error.class})"
      end

      private

      def left(crew) = { supervisor: crew, sets: @holdings.sets.transform_values(&:to_a), files: @holdings.files }

      def real_folder
        Dir.pwd
      rescue SystemCallError
        "/"
      end

      # Returns the path of the folder as the shell named it when the server was started. It may
      # have symlinks (/srv/app/current), which lead to newly deployed code.
      def named_folder
        named = ENV["PWD"]
        named && File.identical?(named, @real_folder) ? named : @real_folder
      end

      # Returns ticket keys, so that each worker can resume a TLS session, also after restarts.
      def ticket_keys = (TLS::TicketKeys.export if @holdings.tls?)

      # Returns the changes that lead to the environment of the start, and to new code.
      def first_environment = Restart.environment.merge(bundle_environment)

      # Returns BUNDLE_GEMFILE with @folder in place of the real path, which leads to the old code.
      def bundle_environment
        gemfile = ENV["BUNDLE_GEMFILE"].to_s
        return {} if @folder == @real_folder || !gemfile.start_with?("#{@real_folder}/")

        { "BUNDLE_GEMFILE" => @folder + gemfile.delete_prefix(@real_folder) }
      end
    end
  end
end
