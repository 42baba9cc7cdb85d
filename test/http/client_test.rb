# frozen_string_literal: true

require "test_helper"
require "gyre/http/client"
require "socket"

# The client against scripted servers: what it accepts, and how it uses connections.
class HTTPClientTest < Minitest::Test
  HELLO = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-One: 1\r\nx-one: 2\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n\r\nhello"

  def test_a_get_returns_status_headers_and_body
    serving(HELLO) do |url|
      response = @client.get("#{url}/path?query")
      assert_equal [200, "hello"], [response.status, response.body]
      assert_equal({ "content-length" => "5", "x-one" => "1, 2", "set-cookie" => %w[a=1 b=2] }, response.headers)
      assert_equal "GET /path?query HTTP/1.1", @heads.pop.lines.first.chomp
    end
  end

  def test_the_connection_is_kept_within_a_loop
    serving(HELLO) do |url|
      Gyre.run { 3.times { @client.get(url) } }
      assert_equal 1, @accepted
    end
  end

  private

  def setup = @client = Gyre::HTTP::Client.new
  def teardown = @client.close

  # Responds with `response` to each head.
  def serving(response)
    server = TCPServer.new("127.0.0.1", 0)
    @heads = Queue.new
    @accepted = 0
    sockets = []
    thread = Thread.new do
      loop do
        sockets << (socket = server.accept)
        @accepted += 1
        Thread.new do
          while (head = socket.gets("\r\n\r\n"))
            @heads << head
            socket.write(response)
          end
        rescue IOError, SystemCallError
          nil
        end
      end
    end
    yield "http://127.0.0.1:#{server.addr[1]}"
  ensure
    thread.kill.join
    [server, *sockets].each(&:close)
    @client.close
  end
end
