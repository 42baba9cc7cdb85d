# frozen_string_literal: true

# The server for net_http.rb and async/net_http.rb: a shop that answers after 0.5 s. Ordinary
# threads, without a loop.
require "socket"

module SlowShop
  # Returns its URL.
  def self.open
    shop = TCPServer.new("127.0.0.1", 0)
    Thread.new do
      while (connection = shop.accept)
        Thread.new(connection) { |client| serve(client) }
      end
    end
    "http://127.0.0.1:#{shop.local_address.ip_port}"
  end

  def self.serve(client)
    path = client.gets.split[1]
    nil until client.gets.chomp.empty?
    sleep 0.5
    body = "price of #{path.delete_prefix("/")}"
    client.write("HTTP/1.1 200 OK\r\ncontent-length: #{body.bytesize}\r\nconnection: close\r\n\r\n#{body}")
    client.close
  end
end
