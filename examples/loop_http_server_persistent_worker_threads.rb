# frozen_string_literal: true

# A web server on Gyre::Loop with worker threads and without commands as events: workers put
# directives into a queue and `signal` the loop, which takes event by event and reads the queue
# between. Arguments: the port (0: a free one), the number of workers. Stop it with Ctrl-C.

require "gyre/loop"
require "socket"
require_relative "loop_http_server/connection"

server = TCPServer.new("127.0.0.1", Integer(ARGV[0] || 1234))
evloop = Gyre::Loop.new
running = true
trap("INT") do
  running = false
  evloop.signal
end
evloop.watch_io(:accept, server)

jobs = Thread::Queue.new
directives = Thread::Queue.new
workers = Array.new(Integer(ARGV[1] || 2)) do
  Thread.new do
    while (connection = jobs.pop)
      directives << [connection.step, connection]
      evloop.signal
    end
  end
end
puts "listening on http://127.0.0.1:#{server.addr[1]}"
$stdout.flush

while running
  case event = evloop.next_event
  when :accept
    io = server.accept_nonblock(exception: false)
    directives << [:read, Connection.new(io)] unless io == :wait_readable
  when Connection # is ready
    jobs << event
  end
  until directives.empty?
    wanted, connection = directives.pop
    wanted == :close ? connection.io.close : evloop.watch_io(connection, connection.io, write: wanted == :write, oneshot: true)
  end
end
jobs.close
workers.each(&:join)
puts "stopped"
