# frozen_string_literal: true

# Passes a log server's state to its successor in this process (USR2): listening sockets, and
# connections with their incomplete messages. Descriptors stay open across exec; the rest is JSON
# (Gyre::CLI::Successor). Gyre::Log::Server calls it on both sides.

require "json"
require "gyre/cli/process/successor"
require "gyre/net/listener"
require "gyre/log/server/connection"

module Gyre
  module CLI
    module Log
      # The new process's view; empty after an ordinary start.
      class Handover
        # Binary values of Gyre::Log::Connection#handover, encoded for JSON.
        BYTES = %w[service rest unsent].freeze
        # Seconds for outputs to read clients' stored numbers.
        PREPARE_S = 1.0

        class << self
          # True in a successor: already a daemon with a pidfile.
          def pending? = Successor.pending?

          def receive
            return new({ "listeners" => [], "connections" => [] }) unless pending?

            left, signals = Successor.receive
            new(JSON.parse(left), signals: signals)
          end
        end

        # Called once the server handles signals.
        def signalled? = @signals.any?

        # `signals` came before the exec.
        def initialize(left, signals: [])
          @signals = signals
          @listeners = left.fetch("listeners").group_by { |listener| listener.fetch("input") }
          @connections = left.fetch("connections")
        end

        def listeners(input)
          @listeners.delete(input.to_s)&.map do |left|
            endpoint = input.endpoint.path ? input.endpoint : input.endpoint.with(host: left.fetch("host"))
            Listener.adopt(left.fetch("descriptor"), endpoint)
          end
        end

        # Closes sockets that the new configuration lacks.
        def close_others
          @listeners.each_value { |listeners| listeners.each { |left| Socket.for_fd(left.fetch("descriptor")).close } }
          @listeners = {}
        end

        # Continues connections; closes those without an input.
        def connections(hub, inputs)
          hub.server.committer.flush(PREPARE_S) if @connections.any?
          inputs = inputs.to_h { |input| [input.to_s, input] }
          @connections.each do |left|
            socket = Socket.for_fd(left.fetch("descriptor"))
            socket.close_on_exec = true
            input = inputs[left.fetch("input")] or next socket.close

            BYTES.each { |name| left[name] = left[name].unpack1("m0") }
            hub.admit(Gyre::Log::Connection.new(hub, input.transport(socket), left.fetch("peer"), input), left)
          end
          @connections = []
        end

        # Returns only by an exception, after which nothing has changed.
        def exec(acceptors, connections, command)
          staying = connections.to_h { |connection| [connection, connection.handover] }.compact
          ios = acceptors.map { |acceptor| acceptor.listener.socket } + staying.keys.map(&:to_io)
          text = JSON.generate(listeners: acceptors.map { |acceptor| listener(acceptor) },
                               connections: staying.values.map { |left| packed(left) })
          (connections - staying.keys).each(&:leave)
          Successor.exec(text, ios, command)
        end

        private

        def packed(left) = left.transform_keys(&:to_s).to_h { |name, value| [name, BYTES.include?(name) ? [value.to_s].pack("m0") : value] }

        def listener(acceptor)
          endpoint = acceptor.listener.endpoint
          { input: acceptor.input.to_s, host: endpoint.host, descriptor: acceptor.listener.fileno }
        end
      end
    end
  end
end
