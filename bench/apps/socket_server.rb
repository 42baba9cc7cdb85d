# frozen_string_literal: true

# The raw HTTP server of bench/scheduler: plain accept, gets and write, a fiber for each connection,
# under the scheduler named first on the command line. Arguments: SCHEDULER PORT. Never parses more
# than the blank line.

require "socket"
require_relative "../support/schedulers"

answer = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 26\r\n\r\nHello from the benchmark.\n"
scheduler, port = ARGV

Thread.new do
  Fiber.set_scheduler(Bench::Schedulers.create(scheduler))
  Fiber.schedule do
    server = TCPServer.new("127.0.0.1", Integer(port))
    server.listen(4096)
    loop do
      client = server.accept
      Fiber.schedule do
        while (line = client.gets)
          client.write(answer) if line == "\r\n"
        end
      rescue Errno::ECONNRESET, Errno::EPIPE
        nil # the load generator leaves without a FIN
      ensure
        client.close
      end
    end
  end
end.join
