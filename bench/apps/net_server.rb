# frozen_string_literal: true

# The echo servers of bench/net that are written in Ruby. Arguments: SUBJECT PORT [CERTIFICATE KEY].
# One for datagrams also listens over TCP, so that it can be seen when it is ready.

require "socket"

subject, port, certificate, key = ARGV
address = "127.0.0.1"
port = Integer(port)

def gyre_echo(listening)
  Gyre.run do
    listening.call.each do |transport|
      while (bytes = transport.read_partial)
        transport.write(bytes)
      end
    rescue SystemCallError, Gyre::TLS::Error
      nil # the load generator leaves without a FIN
    end
  end
end

# The same without fibers: a keyed loop, and calls that never wait.
def gyre_loop_echo(address, port, context)
  listener = TCPServer.new(address, port)
  listener.listen(4096)
  loop = Gyre::Loop.new
  loop.watch_io(listener, listener)
  loop.each do |key|
    key == listener ? accept_all(loop, listener, context) : echo(loop, key)
  end
end

def accept_all(loop, listener, context)
  while (socket = listener.accept_nonblock(exception: false)) != :wait_readable
    socket.setsockopt(:TCP, :NODELAY, true)
    transport = Gyre::Transport.new(socket, "a client")
    transport.begin_tls(context) if context
    loop.watch_io(transport, socket)
  end
end

def echo(loop, transport)
  while (bytes = transport.read_available).is_a?(String)
    transport.queue(bytes)
    transport.flush_available
    return unless transport.pending? || bytes.bytesize >= 16_384
  end
  transport.flush_available if bytes
  loop.emit(transport) if bytes && transport.pending? # the handshake's last packet brought them along
rescue SystemCallError, Gyre::TLS::Error
  bytes = nil
ensure
  if bytes.nil?
    loop.unwatch(transport)
    transport.abandon
  end
end

case subject
when "gyre-loop-plain", "gyre-loop-tls"
  require "gyre"
  require "gyre/net"
  gyre_loop_echo(address, port, certificate && Gyre::TLS.server(cert: certificate, key: key))
when "gyre-plain"
  require "gyre"
  require "gyre/net"
  gyre_echo(-> { Gyre.listen("tcp://#{address}:#{port}") })
when "gyre-tls"
  require "gyre"
  require "gyre/net"
  context = Gyre::TLS.server(cert: certificate, key: key)
  gyre_echo(-> { Gyre.listen("tcp://#{address}:#{port}", tls: context) })
when "gyre-udp"
  require "gyre"
  require "gyre/net"
  Gyre.run do
    Gyre.datagram("udp://#{address}:#{port}") do |socket|
      ready = TCPServer.new(address, port)
      socket.each { |packet| packet.reply(packet.bytes) }
      ready.close
    end
  end
when "async-udp"
  require "async"
  Sync do
    socket = UDPSocket.new
    socket.bind(address, port)
    ready = TCPServer.new(address, port)
    loop do
      bytes, peer = socket.recvfrom(65_536)
      socket.send(bytes, 0, peer[3], peer[1])
    end
    ready.close
  end
when "eventmachine-udp"
  require "eventmachine"
  echo = Module.new do
    def receive_data(bytes)
      send_data(bytes)
    end
  end
  EventMachine.epoll
  EventMachine.run do
    EventMachine.open_datagram_socket(address, port, echo)
    EventMachine.start_server(address, port, Module.new)
  end
else abort "unknown subject: #{subject}"
end
