# frozen_string_literal: true

# EventMachine's functions for a connection's signature. Few programs call them; some test for them.

module Gyre
  module EventMachine
    class << self
      {
        close_connection: :close_connection, detach_fd: :detach, error_status: :error?, get_cipher_bits: :get_cipher_bits,
        get_cipher_name: :get_cipher_name, get_cipher_protocol: :get_cipher_protocol, get_peer_cert: :get_peer_cert,
        get_sni_hostname: :get_sni_hostname, get_comm_inactivity_timeout: :comm_inactivity_timeout,
        get_idle_time: :get_idle_time, get_outbound_data_size: :get_outbound_data_size,
        get_pending_connect_timeout: :pending_connect_timeout, get_sock_opt: :get_sock_opt,
        get_subprocess_pid: :get_pid, get_subprocess_status: :get_status, is_notify_readable: :notify_readable?,
        is_notify_writable: :notify_writable?, pause_connection: :pause, connection_paused?: :paused?, resume_connection: :resume,
        send_datagram: :send_datagram, set_comm_inactivity_timeout: :comm_inactivity_timeout=, set_notify_readable: :notify_readable=,
        set_notify_writable: :notify_writable=, set_pending_connect_timeout: :pending_connect_timeout=, set_sock_opt: :set_sock_opt,
        unwatch_filename: :stop_watching, unwatch_pid: :stop_watching, watch_only?: :watch_only?
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
