# frozen_string_literal: true

# EventMachine::Connection has callbacks that a program overrides, and methods that the program
# calls. Its signature identifies its descriptor (descriptors/), which does the work and calls back.

module Gyre
  module EventMachine
    # A connection's handler; programs subclass it.
    class Connection
      # Descriptor for an unknown signature, as in tests of handlers. Ignores all calls.
      NOTHING = Class.new(BasicObject) { def method_missing(*) = nil }.new

      attr_accessor :signature

      alias original_method method

      # Makes a connection for a descriptor; calls `initialize`, then `post_init`.
      def self.new(signature, *arguments)
        connection = allocate
        connection.__send__(:bind_to, signature)
        connection.__send__(:initialize, *arguments)
        connection.__send__(:post_init)
        connection
      end

      # Gets the arguments that follow the handler in `connect` or `start_server`.
      def initialize(*) = super()

      # Called before all other callbacks.
      def post_init; end

      def receive_data(data) = $stdout.write("............>>>#{data.length}\n")

      # Called when a client's connection is established.
      def connection_completed; end

      # Called when TLS protects the connection.
      def ssl_handshake_completed; end

      # Returns whether to trust the peer's certificate (PEM).
      def ssl_verify_peer(certificate); end

      # Called at the connection's end; an override may take the reason.
      def unbind; end

      # Called when the target of this connection's proxy has ended.
      def proxy_target_unbound; end

      # Called when the proxy has passed on the given number of bytes.
      def proxy_completed; end

      # `detach` returns the number of the descriptor, which stays open. `error?` returns the class
      # of the socket's error, or false. `get_peername` and `get_sockname` return packed sockaddr
      # Strings. `pause` and `resume` return whether the state has changed.
      { detach: :detach, error?: :error?, get_peername: :peername, get_sockname: :sockname, get_outbound_data_size: :unsent_bytes,
        get_idle_time: :idle_s, pause: :pause, resume: :resume, paused?: :paused?, notify_readable?: :notify_readable?,
        notify_writable?: :notify_writable?, get_pid: :pid, get_status: :status }.each do |name, descriptors|
        class_eval("def #{name} = @gyre_descriptor.#{descriptors}", __FILE__, __LINE__)
      end

      # Queues bytes for the turn's end. Returns their number, 0 if the connection is closing, or -1
      # afterwards.
      def send_data(data) = @gyre_descriptor.send_data(data.to_s)

      def close_connection(after_writing = false) = @gyre_descriptor.close(after_writing)

      def close_connection_after_writing = close_connection(true)

      def get_sock_opt(level, option) = @gyre_descriptor.io.getsockopt(level, option).data

      def set_sock_opt(level, name, value) = @gyre_descriptor.io.setsockopt(level, name, value)

      # Probes a peer after `idle` seconds of silence, up to `count` times, every `interval`
      # seconds. nil: the system's value.
      def enable_keepalive(idle = nil, interval = nil, count = nil)
        set_sock_opt(:SOCKET, :KEEPALIVE, 1)
        { KEEPIDLE: idle, KEEPINTVL: interval, KEEPCNT: count }.compact.each { |name, value| set_sock_opt(:TCP, name, value) }
      end

      def disable_keepalive = set_sock_opt(:SOCKET, :KEEPALIVE, 0)

      # Seconds of inactivity until the connection closes, and seconds to connect. 0: no limit.
      { comm_inactivity_timeout: :silence_s, pending_connect_timeout: :connect_s }.each do |name, limit|
        define_method(name) { @gyre_descriptor.limits&.public_send(limit) }
        define_method(:"#{name}=") { |seconds| @gyre_descriptor.limits&.change(limit, seconds.to_f) }
        alias_method :"set_#{name}", :"#{name}="
      end

      # Runs a block that waits. If the connection ends meanwhile, the wait raises the reason (an
      # Errno), or IOError. Without it the callback goes on, and `unbind` is called afterwards.
      def while_open(&block) = @gyre_descriptor.while_open(&block)

      def reconnect(server, port) = EventMachine.reconnect(server, port, self)

      # Returns the number of bytes, or -1 if the datagram cannot be sent.
      def send_datagram(data, address, port) = @gyre_descriptor.send_datagram(data.to_s, address, Integer(port))

      # If set to true, notify_readable or notify_writable is called while the watched IO can be
      # read or written.
      %i[notify_readable= notify_writable=].each { |name| define_method(name) { |mode| @gyre_descriptor.public_send(name, mode) } }

      # True if {EventMachine.watch} made the connection.
      def watch_only? = @gyre_descriptor.is_a?(Descriptors::Watched)

      def send_file_data(path) = EventMachine.send_file_data(@signature, path)

      # Returns a FileStreamer.
      def stream_file_data(path, options = {}) = FileStreamer.new(self, path, options)

      # Passes this connection's input to another connection.
      def proxy_incoming_to(connection, bufsize = 0) = EventMachine.enable_proxy(self, connection, bufsize)

      def stop_proxying = EventMachine.disable_proxy(self)

      def get_proxied_bytes = EventMachine.get_proxied_bytes(@signature)

      # Does nothing, as in the original.
      def associate_callback_target(_signature); end

      private

      def bind_to(signature)
        @signature = signature
        @gyre_descriptor = EventMachine.reactor.descriptors.fetch(signature, NOTHING)
      end

      def when_drained(callable) = @gyre_descriptor.when_drained(callable)
    end

    # Functions that take a connection's signature. Few programs call them, but some check that they
    # exist.
    class << self
      {
        close_connection: :close_connection, pause_connection: :pause, resume_connection: :resume, connection_paused?: :paused?,
        get_comm_inactivity_timeout: :comm_inactivity_timeout, set_comm_inactivity_timeout: :comm_inactivity_timeout=,
        get_pending_connect_timeout: :pending_connect_timeout, set_pending_connect_timeout: :pending_connect_timeout=,
        get_idle_time: :get_idle_time, get_outbound_data_size: :get_outbound_data_size, send_datagram: :send_datagram
      }.each do |function, method|
        define_method(function) { |signature, *arguments| reactor.conns.fetch(signature).__send__(method, *arguments) }
      end

      def get_sockname(signature) = reactor.descriptors[signature]&.io&.getsockname

      def get_peername(signature) = reactor.conns[signature]&.get_peername

      def send_data(signature, data, _size = nil) = reactor.descriptors[signature]&.send_data(data) || -1

      def watch_filename(path) = watch_file(path).signature
    end
  end
end
