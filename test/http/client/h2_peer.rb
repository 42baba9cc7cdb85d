# frozen_string_literal: true

# A connection of the client to a scripted server of HTTP/2, which sends any frames. No test itself.

require "gyre"
require "gyre/http/client/h2_connection"
require "gyre/http/client/limits"
require "socket"
require "support/engines"
require "support/h2_client"

module GyreTest
  # For test classes.
  module H2Peer
    HOST = { "host" => "gyre.test" }.freeze
    LIMITS = { head_timeout_s: 30, read_timeout_s: 30, write_timeout_s: 30 }.freeze
    AVAILABLE = Gyre::HTTP::Client::H2Connection.method_defined?(:capacity)

    def connection(port, tls: nil, **limits)
      transport = Gyre.connect("127.0.0.1:#{port}", tls: tls)
      Gyre::HTTP::Client::H2Connection.new(transport, Gyre::HTTP::Client::Limits.new(**LIMITS, **limits))
    end

    def get(connection, path = "/", until_s = nil, &interim) = connection.request("GET", path, HOST, nil, until_s, &interim)

    def body_of(exchange)
      body = +""
      while (piece = exchange.read)
        body << piece
      end
      body
    end

    # Runs `script` for the next connection in a thread, with the server's end as an H2Client whose
    # preface and SETTINGS are sent; then the block on a loop.
    def scripted(script, settings: {}, **limits)
      Socket.tcp_server_sockets("127.0.0.1", 0) do |(server)|
        thread = Thread.new do
          socket = server.accept.first
          assert_equal H2::PREFACE, socket.read(H2::PREFACE.bytesize)
          peer = H2Client.new(self, socket, settings: nil)
          peer.write(H2.settings(**settings))
          script.call(peer)
          socket.shutdown(:WR)
          nil while socket.read(65_536) # a close before it would be a reset
        rescue Errno::ECONNRESET, Errno::ENOTCONN
          nil
        ensure
          socket&.close
        end
        thread.report_on_exception = false
        Gyre.run do |task|
          connection = connection(server.local_address.ip_port, **limits)
          yield connection, task
        ensure
          connection&.close
        end
        thread.join(H2Client::PATIENCE_S) || flunk("the script did not end")
      ensure
        thread&.kill
      end
    end

    def respond(peer, id, body = "hello", status: "200", fields: [], **options)
      peer.write(H2.headers(id, [[":status", status], *fields], end_stream: false), H2.data(id, body, **options))
    end
  end
end
