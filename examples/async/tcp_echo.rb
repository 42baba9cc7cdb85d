# frozen_string_literal: true

# A TCP server and a hundred clients in one thread, with Ruby's own sockets inside Async's tasks.
#
#   ruby -Ilib examples/async/tcp_echo.rb

require "gyre/async"
require "async"
require "async/barrier"
require "socket"

Async do |task|
  server = TCPServer.new("127.0.0.1", 0)
  serving = task.async do
    loop do
      client = server.accept
      task.async do
        while (line = client.gets)
          client.puts(line.upcase)
        end
      ensure
        client.close
      end
    end
  end

  answers = []
  clients = Async::Barrier.new
  100.times do |number|
    clients.async do
      TCPSocket.open("127.0.0.1", server.local_address.ip_port) do |socket|
        3.times { |turn| socket.puts("client #{number} turn #{turn}").then { answers << socket.gets } }
      end
    end
  end
  clients.wait
  puts "#{answers.size} answers from 100 clients, such as #{answers.min.chomp.inspect}"
ensure
  serving&.stop
  server&.close
end
