# frozen_string_literal: true

# A web server on Gyre::Loop with persistent watches, like selectors with monitors: a connection is
# watched once for its life, for writing only while its client does not take the answer. The fastest
# of these servers. Arguments: the port (0: a free one). Stop it with Ctrl-C.

require "gyre/loop"
require "socket"
require_relative "loop_http_server/connection"

server = TCPServer.new("127.0.0.1", Integer(ARGV[0] || 1234))
evloop = Gyre::Loop.new
trap("INT") { evloop.stop }
evloop.watch_io(:accept, server)
puts "listening on http://127.0.0.1:#{server.addr[1]}"
$stdout.flush

waits_for = Hash.new(:read).compare_by_identity # only the few that write
evloop.each do |event|
  if event == :accept
    io = server.accept_nonblock(exception: false)
    evloop.watch_io(Connection.new(io), io) unless io == :wait_readable
    next
  end

  wanted = event.step
  next if wanted == waits_for[event]

  evloop.unwatch(event)
  wanted == :write ? waits_for[event] = :write : waits_for.delete(event)
  wanted == :close ? event.io.close : evloop.watch_io(event, event.io, write: wanted == :write)
end
puts "stopped"
