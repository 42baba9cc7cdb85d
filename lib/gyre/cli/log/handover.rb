# frozen_string_literal: true

# Passes a log server's listening sockets, and the configuration that was checked, to its successor
# in this process (USR2). Descriptors stay open across exec; Gyre::CLI::Successor passes a list of
# them. Used by Gyre::Log::Server before and after the exec.

require "json"
require "gyre/cli/process/successor"
require "gyre/net/listener"

module Gyre
  module CLI
    module Log
      # The former program's sockets, for the new program; none after an ordinary start.
      class Handover
        # `restart` has checked the next configuration.
        def self.receive(restart = nil)
          text, signals = Successor.receive if Successor.pending?
          new(restart, text ? JSON.parse(text) : {}, signals || [])
        end

        # The text of the configuration; nil after an ordinary start or without a file.
        attr_reader :configuration

        # `signals`: those that came during the handover.
        def initialize(restart, left, signals)
          @restart = restart
          @signals = signals
          @configuration = left["configuration"]
          @listeners = left.fetch("listeners", []).group_by { |listener| listener.fetch("input") }
        end

        # Called once the server handles signals.
        def signal_again = Successor.signal_again(@signals)

        def listeners(input)
          @listeners.delete(input.to_s)&.map do |left|
            endpoint = input.endpoint.path ? input.endpoint : input.endpoint.with(host: left.fetch("host"))
            Listener.adopt(left.fetch("descriptor"), endpoint)
          end
        end

        # Closes sockets that the new configuration does not use.
        def close_others
          @listeners.each_value { |listeners| listeners.each { |left| Socket.for_fd(left.fetch("descriptor")).close } }
          @listeners = {}
        end

        # Executes the command. Returns only by an exception, and then nothing has changed.
        def exec(acceptors, command)
          left = acceptors.map do |acceptor|
            { input: acceptor.input.to_s, host: acceptor.listener.endpoint.host, descriptor: acceptor.listener.fileno }
          end
          text = JSON.generate(listeners: left, configuration: @restart&.configuration)
          Successor.exec(text, acceptors.map { |acceptor| acceptor.listener.socket }, command)
        end
      end
    end
  end
end
