# frozen_string_literal: true

# An HTTP server in several Ractors, which compute in parallel in one process. Each has its own loop
# and listens on the same port (SO_REUSEPORT): the kernel distributes connections. Ctrl-C ends it
# after running requests.
#
#   ruby -W:no-experimental -Ilib examples/ractor_server.rb [port] [how many Ractors]
#
# A Ractor uses only shareable objects: deeply frozen constants, classes and modules. So the app is
# a module. Everything is required before the first Ractor starts.

require "gyre/http"
require "etc"
require "socket"

port = Integer(ARGV.fetch(0, 9292))
count = Integer(ARGV.fetch(1, Etc.nprocessors))

# A Rack app.
module Hello
  def self.call(_env)
    [200, { "content-type" => "text/plain" }, ["Hello from #{Ractor.current.name}\n"]]
  end
end

def bound(port)
  Socket.new(:INET, :STREAM).tap do |socket|
    socket.setsockopt(:SOCKET, :REUSEPORT, true)
    socket.bind(Addrinfo.tcp("127.0.0.1", port))
  end
end

$stdout.sync = true
holder = bound(port) # never listens; keeps the port that the kernel chose
port = holder.local_address.ip_port
end_seen, end_said = IO.pipe # read by all: closing the other end reaches each
ready_seen, ready_said = IO.pipe # a byte from each that listens

ractors = Array.new(count) do |index|
  Ractor.new(port, end_seen.fileno, ready_said.fileno, name: "Ractor #{index + 1}") do |number, until_end, ready|
    Gyre.run do
      socket = bound(number)
      socket.listen(1024)
      server = Gyre::HTTP::Server.new(Hello, listeners: [socket]).start
      IO.for_fd(ready, autoclose: false).syswrite(".")
      IO.for_fd(until_end, autoclose: false).read
      server.shutdown(2)
      socket.close
      server.stats[:requests]
    end
  end
end

ready_seen.read(count)
%w[INT TERM].each { |signal| trap(signal) { end_said.close } }
puts "http://127.0.0.1:#{port} in #{count} Ractors"
requests = ractors.map { |ractor| ractor.respond_to?(:value) ? ractor.value : ractor.take } # Ruby 4.0 renamed it
puts "#{requests.sum} requests"
