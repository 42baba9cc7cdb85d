# frozen_string_literal: true

# A web server on Gyre::Loop with worker threads, each with its own queue: workers do not contend
# for one queue, and a connection stays with its worker. Arguments: the port (0: a free one), the
# number of workers. Stop it with Ctrl-C.

require "gyre/loop"
require "socket"
require_relative "loop_http_server/connection"

server = TCPServer.new("127.0.0.1", Integer(ARGV[0] || 1234))
evloop = Gyre::Loop.new
trap("INT") { evloop.stop }
evloop.watch_io(:accept, server)

queues = Array.new(Integer(ARGV[1] || 2)) { Thread::Queue.new }
workers = queues.map do |queue|
  Thread.new do
    while (connection = queue.pop)
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
    queues[event.io.fileno % queues.size] << event
  when Array
    command, connection = event
    command == :close ? connection.io.close : evloop.watch_io(connection, connection.io, write: command == :write, oneshot: true)
  end
end
queues.each(&:close)
workers.each(&:join)
puts "stopped"
