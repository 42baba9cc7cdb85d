# frozen_string_literal: true

# A web server on Gyre::Loop with worker threads: the loop only reports ready connections, which the
# workers take from one queue. By `emit`, which any thread may call, they tell the loop what to
# watch next. Arguments: the port (0: a free one), the number of workers. Stop it with Ctrl-C.

require "gyre/loop"
require "socket"
require_relative "loop_http_server/connection"

server = TCPServer.new("127.0.0.1", Integer(ARGV[0] || 1234))
evloop = Gyre::Loop.new
trap("INT") { evloop.stop }
evloop.watch_io(:accept, server)

jobs = Thread::Queue.new
workers = Array.new(Integer(ARGV[1] || 2)) do
  Thread.new do
    while (connection = jobs.pop)
      evloop.emit([connection.step, connection])
    end
  end
end
puts "listening on http://127.0.0.1:#{server.addr[1]}"
$stdout.flush

evloop.each do |event|
  case event
  when :accept
    io = server.accept_nonblock(exception: false)
    evloop.emit([:read, Connection.new(io)]) unless io == :wait_readable
  when Connection # is ready
    jobs << event
  when Array
    command, connection = event
    command == :close ? connection.io.close : evloop.watch_io(connection, connection.io, write: command == :write, oneshot: true)
  end
end
jobs.close
workers.each(&:join)
puts "stopped"
