# frozen_string_literal: true

# A whole protocol over transports: each line comes back with its number, "quit" ends, too long
# lines are refused. It knows neither sockets nor TLS.
#
#   ruby -Ilib examples/line_echo.rb [address] [certificate.pem key.pem]
#
# To try it: nc localhost 7007, or openssl s_client -quiet -connect localhost:7007

require "gyre"
require "gyre/net"

# One client's conversation.
class LineEcho
  LINE_BYTES_LIMIT = 1024
  IDLE_TIMEOUT_S = 60

  def initialize(transport)
    @transport = transport
    @transport.read_timeout_s = @transport.write_timeout_s = IDLE_TIMEOUT_S
    @lines = 0
  end

  def serve
    while (line = @transport.gets(limit: LINE_BYTES_LIMIT, chomp: true))
      return @transport.write("bye\n") if line == "quit"

      @transport.write((@lines += 1).to_s, " ", line, "\n")
    end
  rescue Gyre::ProtocolError
    @transport.write("error: a line has at most #{LINE_BYTES_LIMIT} bytes\n")
  rescue Gyre::TimeoutError, SystemCallError, Gyre::TLS::Error => error
    warn "line echo: #{error.message}" # the network's errors name the peer; they end this connection only
  end
end

address, certificate, key = ARGV
tls = Gyre::TLS.server(cert: certificate, key: key) if certificate
server = Gyre.listen(address || "tcp://127.0.0.1:7007", tls: tls)
$stdout.sync = true
puts "listening on #{server.endpoints.join(", ")}#{" with TLS" if tls}"

Gyre.run do |task|
  task.async(transient: true) { Gyre.signals("INT", "TERM").each { server.close } }
  server.each { |transport| LineEcho.new(transport).serve }
end
puts "stopped"
