# frozen_string_literal: true

# Socks4: a connection through a SOCKS 4 proxy. The handler's post_init and receive_data begin once
# the proxy has connected.
require "socket"

module Gyre
  module EventMachine
    module Protocols
      # `EM.connect(proxy, port, Handler, host, port)`, with a Handler derived from this class.
      class Socks4 < Connection
        # Takes the calls of the handler's methods until the proxy has answered.
        module Handshake
          # Asks the proxy to connect.
          def post_init
            return super if @socks_over

            address = Addrinfo.getaddrinfo(@socks_host, nil, :INET, :STREAM).first.ip_address
            send_data([4, 1, @socks_port, *address.split(".").map(&:to_i)].pack("CCnC4x"))
          end

          # @param data [String]
          def receive_data(data)
            return super if @socks_over

            @socks_reply << data
            return if @socks_reply.bytesize < 8

            @socks_error_code = @socks_reply.getbyte(1)
            return close_connection unless @socks_error_code == 90

            @socks_over = true
            post_init
            rest = @socks_reply.byteslice(8..)
            receive_data(rest) unless rest.empty?
          end
        end
        private_constant :Handshake

        # @param host [String]
        # @param port [Integer]
        def initialize(host, port)
          super()
          @socks_host = host
          @socks_port = Integer(port)
          @socks_reply = String.new
          @socks_error_code = nil
          @socks_over = false
          extend(Handshake)
        end
      end
    end
  end
end
