# frozen_string_literal: true

# EventMachine::Connection: the callbacks that a program overrides, and the methods that it calls.
# Descriptors (descriptors/) do the work and call back; a connection's signature names its
# descriptor.

module Gyre
  module EventMachine
    # A connection's handler, as programs subclass it.
    class Connection
      # Stands for the descriptor of a signature that nothing has: calls do nothing. Tests of
      # handlers make such connections.
      NOTHING = Class.new(BasicObject) { def method_missing(*) = nil }.new
      private_constant :NOTHING

      # @return [Integer] names the connection
      attr_accessor :signature

      alias original_method method

      # Makes one for a descriptor: `initialize`, then `post_init`.
      #
      # @param signature [Integer]
      def self.new(signature, *arguments)
        connection = allocate
        connection.__send__(:bind_to, signature)
        connection.__send__(:initialize, *arguments)
        connection.__send__(:post_init)
        connection
      end

      # @!group Callbacks

      # Takes the arguments behind the handler.
      def initialize(*) = super()

      # Called first of all callbacks.
      # @return [void]
      def post_init; end

      # @param data [String] binary
      # @return [void]
      def receive_data(data) = $stdout.write("............>>>#{data.length}\n")

      # A client's connection stands.
      # @return [void]
      def connection_completed; end

      # TLS begins to protect the connection.
      # @return [void]
      def ssl_handshake_completed; end

      # @param certificate [String] PEM of a certificate of the peer
      # @return [Boolean] whether to trust it
      def ssl_verify_peer(certificate); end

      # The connection is over. An override may take the reason.
      # @return [void]
      def unbind; end

      # Called when the connection that gets this one's input has ended.
      # @return [void]
      def proxy_target_unbound; end

      # Called when the agreed number of bytes has been sent to the other connection.
      # @return [void]
      def proxy_completed; end

      # @!endgroup

      # Queues bytes, which leave at the end of the turn.
      # @param data [#to_s]
      # @return [Integer] bytes, 0 on a closing connection
      def send_data(data) = @gyre_descriptor.send_data(data.to_s)

      # @param after_writing [Boolean] whether to send what is queued before
      # @return [void]
      def close_connection(after_writing = false) = @gyre_descriptor.close(after_writing)

      # @return [void]
      def close_connection_after_writing = close_connection(true)

      # Stops watching the descriptor.
      # @return [Integer] its number, open
      def detach = @gyre_descriptor.detach

      # @return [false, true, Class] the Errno of the socket's error
      def error? = @gyre_descriptor.error?

      # @return [String, nil] the peer's struct sockaddr
      def get_peername = @gyre_descriptor.peername

      # @return [String, nil] this side's struct sockaddr
      def get_sockname = @gyre_descriptor.sockname

      # @param level [Integer]
      # @param option [Integer]
      # @return [String]
      def get_sock_opt(level, option) = @gyre_descriptor.io.getsockopt(level, option).data

      # @param level [Integer]
      # @param name [Integer]
      # @param value [Integer]
      # @return [Integer] 0
      def set_sock_opt(level, name, value) = @gyre_descriptor.io.setsockopt(level, name, value)

      # @return [Integer] bytes that are not sent yet
      def get_outbound_data_size = @gyre_descriptor.unsent_bytes

      # @return [Float] seconds since the last byte
      def get_idle_time = @gyre_descriptor.idle_s

      # @return [Float] seconds without a byte after which the connection is closed, 0: never
      def comm_inactivity_timeout = @gyre_descriptor.limits&.silence_s

      # @param seconds [Numeric]
      def comm_inactivity_timeout=(seconds)
        @gyre_descriptor.limits&.silence_s = seconds.to_f
      end
      alias set_comm_inactivity_timeout comm_inactivity_timeout=

      # @return [Float] seconds for the connection to stand
      def pending_connect_timeout = @gyre_descriptor.limits&.connect_s

      # @param seconds [Numeric]
      def pending_connect_timeout=(seconds)
        @gyre_descriptor.limits&.connect_s = seconds.to_f
      end
      alias set_pending_connect_timeout pending_connect_timeout=

      # @param server [String]
      # @param port [Integer]
      # @return [self]
      def reconnect(server, port) = EventMachine.reconnect(server, port, self)

      # Stops reading.
      # @return [Boolean] whether it read before
      def pause = @gyre_descriptor.pause

      # @param data [#to_s]
      # @param address [String]
      # @param port [Integer]
      # @return [Integer] bytes, -1 if it cannot be sent
      def send_datagram(data, address, port) = @gyre_descriptor.send_datagram(data.to_s, address, Integer(port))

      # @return [Boolean]
      def notify_readable? = @gyre_descriptor.notify_readable?

      # @param mode [Boolean] whether notify_readable is called while the watched IO can be read
      def notify_readable=(mode)
        @gyre_descriptor.notify_readable = mode
      end

      # @return [Boolean]
      def notify_writable? = @gyre_descriptor.notify_writable?

      # @param mode [Boolean] whether notify_writable is called while it can be written
      def notify_writable=(mode)
        @gyre_descriptor.notify_writable = mode
      end

      # @return [Boolean] whether it is of {EventMachine.watch}
      def watch_only? = @gyre_descriptor.is_a?(Descriptors::Watched)

      # @return [Integer, nil] of the child process
      def get_pid = @gyre_descriptor.pid

      # @return [Process::Status, nil] of the child process, once it is over
      def get_status = @gyre_descriptor.status

      # Sends a small file.
      # @param path [String]
      # @return [Integer] bytes
      def send_file_data(path) = EventMachine.send_file_data(@signature, path)

      # Sends a file in pieces.
      # @param path [String]
      # @return [FileStreamer]
      def stream_file_data(path, options = {}) = FileStreamer.new(self, path, options)

      # Sends this connection's input to another one.
      # @param connection [Connection]
      # @return [void]
      def proxy_incoming_to(connection, bufsize = 0) = EventMachine.enable_proxy(self, connection, bufsize)

      # @return [void]
      def stop_proxying = EventMachine.disable_proxy(self)

      # @return [Integer] bytes
      def get_proxied_bytes = EventMachine.get_proxied_bytes(@signature)

      # Does nothing, as in the original.
      # @return [void]
      def associate_callback_target(_signature); end

      # @return [Boolean] whether it was paused
      def resume = @gyre_descriptor.resume

      # @return [Boolean]
      def paused? = @gyre_descriptor.paused?

      private

      def bind_to(signature)
        @signature = signature
        @gyre_descriptor = EventMachine.reactor.descriptors.fetch(signature, NOTHING)
      end

      def when_drained(callable) = @gyre_descriptor.when_drained(callable)
    end
  end
end
