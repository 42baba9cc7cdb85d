# frozen_string_literal: true

# The smallest HTTP server: accept, read up to the blank line, write; a fiber for each connection.
# Each answer takes 0.3 s, even a hundred at once. (`gyre serve` is the real server.)
#
#   ruby -Ilib examples/raw_http_server.rb [port] [number of requests to serve, then end]

require "gyre"
require "socket"

port = Integer(ARGV.fetch(0, 9292))
limit = ARGV[1] ? Integer(ARGV[1]) : Float::INFINITY

def answer(connection, others)
  request = connection.gets
  nil until connection.gets.to_s.chomp.empty?
  sleep 0.3 # a slow database
  body = "You asked for #{request.to_s.split[1]}, as #{others} others did\n"
  connection.write("HTTP/1.1 200 OK\r\ncontent-length: #{body.bytesize}\r\nconnection: close\r\n\r\n#{body}")
ensure
  connection.close
end

Fiber.set_scheduler(Gyre::Scheduler.new)
server = TCPServer.new("127.0.0.1", port)
$stdout.sync = true
puts "http://127.0.0.1:#{server.local_address.ip_port}"

Fiber.schedule do
  started = nil
  accepted = answered = 0
  while accepted < limit
    connection = server.accept
    started ||= Process.clock_gettime(Process::CLOCK_MONOTONIC)
    accepted += 1
    Fiber.schedule do
      answer(connection, accepted - answered - 1)
      answered += 1
      seconds = Process.clock_gettime(Process::CLOCK_MONOTONIC) - started
      puts format("%<answered>d requests in %<seconds>.2f s", answered: answered, seconds: seconds) if answered == limit
    end
  end
  server.close
end
