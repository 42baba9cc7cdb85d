# frozen_string_literal: true

# Starts programs for ServeWorkers, in the folder where the server was started: molds, programs
# beside the workers, and after USR2 the next program, which is first rehearsed in a child.

require "gyre/cli/process/restart"
require "gyre/cli/process/successor"
require "gyre/cli/serve/handover"
require "gyre/net/tls"
require "gyre/cluster/member"
require "gyre/cluster/mold"

module Gyre
  module CLI
    class Launcher
      REHEARSAL_S = 60
      PRINTED_BYTES = 65_536

      def initialize(holdings)
        @holdings = holdings
        @restart = Restart.new
        @real_folder = real_folder
        @folder = named_folder
      end

      # Starts a mold for Supervisor.
      def spawn_mold
        Cluster::Mold.spawn(@restart.command, @holdings.sets.fetch(:sockets), environment: first_environment, secrets: ticket_keys,
                                                                                   chdir: @folder)
      end

      # Starts a program for Supervisor, with the socket for its broadcasts; returns its pid.
      def spawn_program(words, socket)
        environment = { **Cluster::Mold::SUPERVISORS_OWN, **Broadcast::Uplink.environment(socket), **bundle_environment }
        Process.spawn(environment, [words.first, words.first], *words.drop(1), chdir: @folder, close_others: true, pgroup: true,
                                                                               socket.fileno => socket.fileno)
      end

      # Rehearses the next program in a child. If that fails, returns the reason. Otherwise yields,
      # and executes the program in this process.
      def replace(supervisor)
        command = @restart.command
        rehearse(supervisor, command) || begin
          yield
          Handover.exec(supervisor, @holdings.sets, @holdings.files, [bundle_environment, *command], secrets: ticket_keys, chdir: @folder)
        end
      end

      private

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

      # Starts the next program in a child, which inherits the sockets and ends before it would
      # serve. Returns the reason if that fails, or nil.
      def rehearse(supervisor, command)
        output = Successor.unnamed # the child's children may keep a pipe
        status = Handover.lend(supervisor, @holdings.sets, @holdings.files) do |environment, descriptors|
          supervisor.crew.reaper.run(first_environment.merge(environment), *command, "--check", limit_s: REHEARSAL_S, out: output, err: output,
                                     chdir: @folder, close_others: true, **descriptors)
        end
        return if status.success?

        output.rewind
        printed = (output.read(PRINTED_BYTES) || +"").force_encoding(Encoding::UTF_8).scrub.strip
        return "the new program #{Cluster::Member.end_of(status)} (it has #{REHEARSAL_S} s)" if status.signaled? || printed.empty?

        printed.delete_prefix("gyre serve: ")
      ensure
        output&.close
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
