# frozen_string_literal: true

# Looks at what a server really answers before it is measured: twice on one connection, status,
# length and body. A server that is wrong is not measured. Speaks HTTP/1.1 by hand, so that no
# client library hides anything; HTTP/2 by curl.

require "openssl"
require "socket"
require_relative "setup"

module Bench
  # Checks answers; has no server.
  module Answers
    HELLO = "Hello from the benchmark.\n"
    BODIES = { "/" => HELLO, "/sleep/0.1" => HELLO, "/sleep/1" => HELLO, "/work" => HELLO,
               "/12k" => "x" * 12_000, "/12m" => "x" * 12_000_000,
               "/static/10k" => "x" * 10_000, "/static/10m" => "x" * 10_000_000 }.freeze

    module_function

    def check(port, path, headers = {}, tls: false)
      connect(port, tls) do |socket|
        sizes = Array.new(2) { ask(socket, path, headers) }
        return sizes.last
      end
    rescue EOFError, SystemCallError, OpenSSL::SSL::SSLError => e
      raise Problem, "GET #{path}: #{e.class}: #{e.message}"
    end

    # The same over HTTP/2, by prior knowledge where it is not over TLS.
    def check_http2(url, path)
      command = [Setup.program("curl"), "-sSik", "--max-time", "5", "--http2-prior-knowledge", url, { err: %i[child out] }]
      text = IO.popen(command, "rb", &:read)
      head, body = text.split("\r\n\r\n", 2)
      raise Problem, "GET #{path} over HTTP/2, with curl:\n#{text[0, 500]}" unless head.start_with?("HTTP/2 200") && body == BODIES.fetch(path)

      head.bytesize + 4
    end

    # The certificate is not looked at.
    def connect(port, tls)
      Socket.tcp("127.0.0.1", port, connect_timeout: 5) do |socket|
        yield tls ? OpenSSL::SSL::SSLSocket.new(socket, OpenSSL::SSL::SSLContext.new).connect : socket
      end
    end

    def ask(socket, path, headers)
      fields = { "Host" => "127.0.0.1" }.merge(headers).map { |name, value| "#{name}: #{value}\r\n" }
      socket.write("GET #{path} HTTP/1.1\r\n#{fields.join}\r\n")
      head = +""
      head << (socket.gets or raise EOFError, "connection closed in the head") until head.end_with?("\r\n\r\n")
      raise Problem, "GET #{path}: #{head.lines.first}" unless head.match?(%r{\AHTTP/1\.1 200 })

      body = read_body(socket, head)
      raise Problem, "GET #{path}: wrong body of #{body.bytesize} bytes" unless body == BODIES.fetch(path)

      head.bytesize
    end

    def read_body(socket, head)
      if (length = head[/^content-length:\s*(\d+)\r$/i, 1])
        socket.read(length.to_i)
      else
        raise Problem, "neither content-length nor chunked:\n#{head}" unless head.match?(/^transfer-encoding:\s*chunked\r$/i)

        read_chunks(socket)
      end
    end

    def read_chunks(socket)
      body = +""
      until (size = socket.gets.to_i(16)).zero?
        body << socket.read(size)
        socket.read(2)
      end
      socket.gets
      body
    end
  end
end
