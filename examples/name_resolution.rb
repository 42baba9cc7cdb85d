# frozen_string_literal: true

# Name resolution does not stop other fibers. Look-ups are made slow here: each takes 0.5 s, as with
# a distant name server. Five of them at once take 0.5 s, and another fiber ticks meanwhile.
#
#   ruby -Ilib examples/name_resolution.rb

require "gyre"
require "socket"

# Pretends that the system's resolver is slow.
module SlowResolver
  def getaddrinfo(...)
    sleep 0.5
    super
  end
end
Addrinfo.singleton_class.prepend(SlowResolver)

server = TCPServer.new("localhost", 0)
started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
ticks = 0
Gyre.run do |task|
  task.async(transient: true) { (sleep 0.05) && ticks += 1 while true }
  connections = Array.new(5) { task.async { TCPSocket.new("localhost", server.local_address.ip_port) } }
  connections.each do |connection|
    socket = connection.wait
    puts "localhost is #{socket.remote_address.ip_address}"
    socket.close
  end
end
puts format("5 names in %<seconds>.2f s, %<ticks>d ticks meanwhile",
            seconds: Process.clock_gettime(Process::CLOCK_MONOTONIC) - started, ticks: ticks)
