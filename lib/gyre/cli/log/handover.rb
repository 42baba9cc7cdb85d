# frozen_string_literal: true

# What a log server leaves to the fresh one that takes its place in the same process (USR2):
# listening sockets, and connections with their states. The descriptors stay open across exec; the
# rest is JSON in a file without a name, whose descriptor stands in an environment variable.
# Gyre::Log::Server gets one from the command, and calls it on both sides. Everything must be
# written before: it carries no messages but incomplete ones.
#
# INT and TERM that come just before the exec stand behind the JSON in that file
# (ext/gyre/log/log_signals.c); exe/gyre traps those that come while the fresh program is being
# loaded. One that comes while Ruby itself starts ends the process as it ends any Ruby program, by
# the signal or with status 1; everything was written before the exec.

require "fcntl"
require "json"
require "tempfile"
require "gyre/net/listener"
require "gyre/log/server/connection"

module Gyre
  module CLI
    module Log
      # One handing over, as the fresh process sees it; empty after an ordinary start.
      class Handover
        # "<descriptor> <process>": for this process, not for a child that inherits the variable.
        VARIABLE = "GYRE_LOG_HANDOVER"
        # Signals that would end a process which has not trapped them yet.
        FATAL_SIGNALS = %w[HUP USR2].freeze
        # Bytes in what Gyre::Log::Connection#handover gives; JSON has text only.
        BYTES = %w[service rest unsent].freeze

        class << self
          # @return [Boolean] whether this process takes another server's place: it is a daemon
          #   already, and its pidfile is right
          def pending? = ENV.fetch(VARIABLE, "").split.last == Process.pid.to_s

          # @return [Handover]
          def receive
            return new({ "listeners" => [], "connections" => [] }) unless pending?

            file = IO.for_fd(Integer(ENV.delete(VARIABLE).split.first), "rb")
            file.rewind
            left, signals = file.read.split("\0", 2)
            new(JSON.parse(left), signals: signals.bytes)
          ensure
            file&.close
          end
        end

        # Called once the server handles signals by itself.
        #
        # @return [Boolean] whether a signal to end came before
        def signalled? = @signals.any?

        # @param left [Hash{String => Array}]
        # @param signals [Array<Integer>] that came before the exec
        def initialize(left, signals: [])
          @signals = defined?(::GYRE_EARLY_SIGNALS) ? ::GYRE_EARLY_SIGNALS.concat(signals) : signals
          @listeners = left.fetch("listeners").group_by { |listener| listener.fetch("input") }
          @connections = left.fetch("connections")
        end

        # @param input [Gyre::Log::Input]
        # @return [Array<Gyre::Listener>, nil] those of the former server that are for the same
        def listeners(input)
          @listeners.delete(input.to_s)&.map do |left|
            endpoint = input.endpoint.path ? input.endpoint : input.endpoint.with(host: left.fetch("host"))
            Listener.adopt(left.fetch("descriptor"), endpoint)
          end
        end

        # Closes listening sockets that the fresh configuration does not name.
        def close_others
          @listeners.each_value { |listeners| listeners.each { |left| Socket.for_fd(left.fetch("descriptor")).close } }
          @listeners = {}
        end

        # Lets the former server's connections continue; those whose input is gone are closed.
        #
        # @param hub [Gyre::Log::Hub]
        # @param inputs [Array<Gyre::Log::Input>]
        def connections(hub, inputs)
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

        # Starts the fresh program; returns only by an exception, and everything is as before then.
        #
        # @param acceptors [Array<Gyre::Log::Acceptor>]
        # @param connections [Array<Gyre::Log::Connection>]
        # @param command [Array] as Process.exec takes it
        # @raise [SystemCallError]
        def exec(acceptors, connections, command)
          staying = connections.to_h { |connection| [connection, connection.handover] }.compact
          ios = acceptors.map { |acceptor| acceptor.listener.socket } + staying.keys.map(&:to_io)
          file = file(JSON.generate(listeners: acceptors.map { |acceptor| listener(acceptor) },
                                    connections: staying.values.map { |left| packed(left) }))
          (connections - staying.keys).each(&:leave)
          holding_signals(file) { keep_open([*ios, file]) { ignoring_signals { replace_process(file, command) } } }
        ensure
          file&.close
        end

        private

        def packed(left)
          left.transform_keys(&:to_s).to_h { |name, value| [name, BYTES.include?(name) ? [value.to_s].pack("m0") : value] }
        end

        def listener(acceptor)
          endpoint = acceptor.listener.endpoint
          { input: acceptor.input.to_s, host: endpoint.host, descriptor: acceptor.listener.fileno }
        end

        def file(text)
          Tempfile.create("gyre-log").tap do |file|
            File.unlink(file.path)
            file.binmode
            file.write(text, "\0")
            file.flush
          end
        end

        def keep_open(ios)
          ios.each { |io| io.close_on_exec = false }
          yield
        ensure
          ios.each { |io| io.close_on_exec = true }
        end

        # A signal that came before is in the loop by now, which gets its turn: then this task is
        # stopped there.
        def holding_signals(file)
          Gyre::Log::HeldSignals.hold(file.fileno)
          2.times { sleep 0 }
          yield
        ensure
          signal = Gyre::Log::HeldSignals.release
          Process.kill(signal, Process.pid) if signal
        end

        def ignoring_signals
          former = FATAL_SIGNALS.to_h { |name| [name, trap(name, "IGNORE")] }
          yield
        ensure
          former.each { |name, handler| trap(name, handler || "DEFAULT") }
        end

        def replace_process(file, command)
          environment = command.first.is_a?(Hash) ? command.shift : {}
          Process.exec(environment.merge(VARIABLE => "#{file.fileno} #{Process.pid}"), *command, close_others: false)
        end
      end
    end
  end
end
