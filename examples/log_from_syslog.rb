# frozen_string_literal: true

# From syslog: programs keep their syslog socket, and their messages join all others. Uses
# util-linux's `logger`, if installed, and a plain UDP socket.
#
#   ruby -Ilib examples/log_from_syslog.rb

require "rbconfig"
require "socket"
require "tmpdir"

CONFIGURATION = <<~YAML
  port: 0
  interval: 0.1
  default_log: everything.log
  inputs:
  - type: syslog
    bind: [udp://127.0.0.1:0, tcp://127.0.0.1:0]
  logs:
  - service: sshd
    logfile: ssh.log
YAML

Dir.mktmpdir do |folder|
  File.write(File.join(folder, "log.yml"), CONFIGURATION)
  gyre = [RbConfig.ruby, "-I", File.expand_path("../lib", __dir__), File.expand_path("../exe/gyre", __dir__)]
  server = IO.popen([*gyre, "log", "-c", "log.yml", { chdir: folder, err: %i[child out] }])
  said = server.gets
  udp, tcp = %w[udp tcp].map { |name| said.scan(%r{#{name}://127\.0\.0\.1:(\d+)}).last.first.to_i }

  # By syslog(3), routers and old daemons (RFC 3164), and by newer ones (RFC 5424).
  UDPSocket.open do |socket|
    socket.send("<38>Nov 21 19:20:00 web1 sshd[4711]: Accepted publickey for root", 0, "127.0.0.1", udp)
    socket.send("<165>1 2026-11-21T19:20:00.5Z web1 shop 99 order [at room=\"7\"] paid", 0, "127.0.0.1", udp)
  end
  if system("logger", "--version", out: File::NULL, err: File::NULL)
    system("logger", "-n", "127.0.0.1", "-P", tcp.to_s, "--tcp", "--octet-count", "-t", "sshd", "-p", "auth.warning", "who is there?",
           exception: true)
  else
    TCPSocket.open("127.0.0.1", tcp) { |socket| socket.write("<36>1 - web1 sshd - - - who is there?\n") }
  end

  # UDP has no response: waits until the files have them.
  wanted = { "ssh.log" => 2, "everything.log" => 1 }
  200.times do
    break if wanted.all? { |name, lines| File.exist?(File.join(folder, name)) && File.readlines(File.join(folder, name)).size >= lines }

    sleep 0.05
  end
  Process.kill(:TERM, server.pid)
  server.read
  server.close
  wanted.each_key { |name| puts "#{name}:", File.readlines(File.join(folder, name)).map { |line| "  #{line.split("|", 2).last}" } }
end
