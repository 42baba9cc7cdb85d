# frozen_string_literal: true

# For tests of Gyre::EventMachine: a reactor that ends by itself, a free port, and a connection that
# reports its callbacks.
require "gyre/event_machine"

module GyreTest
  module Reactors
    EM = Gyre::EventMachine

    # Reports its callbacks to a callable.
    class Told < EM::Connection
      def initialize(told = nil)
        super
        @told = told
      end

      def post_init = tell(:post_init)
      def connection_completed = tell(:connection_completed)
      def receive_data(data) = tell(:receive_data, data)
      def unbind(reason) = tell(:unbind, reason)
      def ssl_handshake_completed = tell(:ssl_handshake_completed)
      def ssl_verify_peer(certificate) = tell(:ssl_verify_peer, certificate)
      def proxy_completed = tell(:proxy_completed)

      private

      def tell(name, *arguments) = @told&.call(name, self, *arguments)
    end

    module Echo
      private

      def receive_data(data) = send_data(data)
    end

    def teardown
      super
      EM.error_handler
    end

    def run_reactor(&block)
      EM.run do
        EM.add_timer(60) { raise "the test did not end" }
        block.call
      end
    end

    # Serves on a free port and returns it.
    def serve(handler = Told, *arguments, &block)
      signature = EM.start_server("127.0.0.1", 0, handler, *arguments, &block)
      EM.reactor.descriptors[signature].io.local_address.ip_port
    end
  end
end
