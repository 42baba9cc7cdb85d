# frozen_string_literal: true

# Net::HTTP inside Async's tasks: five requests to a shop that takes 0.5 s for each answer, all in 0.5 s.
#
#   ruby -Ilib examples/async/net_http.rb

require "gyre/async"
require "async"
require "net/http"
require "socket"

# The shop: ordinary threads that know nothing of Async.
shop = TCPServer.new("127.0.0.1", 0)
Thread.new do
  while (connection = shop.accept)
    Thread.new(connection) do |client|
      path = client.gets.split[1]
      nil until client.gets.chomp.empty?
      sleep 0.5
      body = "price of #{path.delete_prefix("/")}"
      client.write("HTTP/1.1 200 OK\r\ncontent-length: #{body.bytesize}\r\nconnection: close\r\n\r\n#{body}")
      client.close
    end
  end
end

started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
Async do |task|
  questions = %w[tea coffee milk sugar bread].map do |good|
    task.async { Net::HTTP.get(URI("http://127.0.0.1:#{shop.local_address.ip_port}/#{good}")) }
  end
  questions.each { |question| puts question.wait }
end
puts format("5 requests in %.2f s", Process.clock_gettime(Process::CLOCK_MONOTONIC) - started)
