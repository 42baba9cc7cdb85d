# frozen_string_literal: true

# The servers of bench/event_machine, for EventMachine and for Gyre under its name. Arguments: KIND
# PORT. One for datagrams also listens over TCP, so that it can be seen when it is ready.

require "eventmachine"

# Sends back what arrives.
module Echo
  def receive_data(data)
    send_data(data)
  end
end

# Sends back each line.
module Lines
  include EM::Protocols::LineText2

  def receive_line(line)
    send_data("#{line}\n")
  end
end

kind, port = ARGV
address = "127.0.0.1"
port = Integer(port)

EM.epoll
EM.set_descriptor_table_size(20_000)
EM.run do
  case kind
  when "echo", "idle" then EM.start_server(address, port, Echo)
  when "lines" then EM.start_server(address, port, Lines)
  when "udp"
    EM.open_datagram_socket(address, port, Echo)
    EM.start_server(address, port, Module.new)
  else abort "unknown kind: #{kind}"
  end
end
