# frozen_string_literal: true

# A web server on Gyre::Loop in one thread, with a one-shot watch for each wait and commands as
# events. Arguments: the port (0: a free one). Stop it with Ctrl-C. The other loop_http_server_*.rb
# are variants.

require "gyre/loop"
require "socket"
require_relative "loop_http_server/connection"

server = TCPServer.new("127.0.0.1", Integer(ARGV[0] || 1234))
evloop = Gyre::Loop.new
trap("INT") { evloop.stop }
evloop.watch_io(:accept, server)
puts "listening on http://127.0.0.1:#{server.addr[1]}"
$stdout.flush

evloop.each do |event|
  case event
  when :accept
    io = server.accept_nonblock(exception: false)
    evloop.emit([:read, Connection.new(io)]) unless io == :wait_readable
  when Connection # is ready
    evloop.emit([event.step, event])
  when Array
    command, connection = event
    command == :close ? connection.io.close : evloop.watch_io(connection, connection.io, write: command == :write, oneshot: true)
  end
end
puts "stopped"
