# frozen_string_literal: true

require "test_helper"

class HTTP1Test < Minitest::Test
  def test_one_require_is_enough_for_a_server
    output = ruby("-e", <<~'RUBY')
      require "gyre/http1"
      listener = TCPServer.new("127.0.0.1", 0)
      Gyre.run do
        server = Gyre::HTTP1::Server.new(->(env) { [200, {}, ["you asked for #{env["PATH_INFO"]}"]] }, listeners: [listener]).start
        client = TCPSocket.new("127.0.0.1", listener.local_address.ip_port)
        client.write("GET /this HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        puts client.read.lines.last
        server.shutdown(1)
      end
    RUBY
    assert_equal ["you asked for /this\n", true], [output.out, output.status.success?], output.err
  end

  def test_with_the_portable_engine_no_extension_is_loaded
    output = ruby("-e", 'require "gyre/http1"; puts $LOADED_FEATURES.grep(/gyre_ext/).size', env: { "GYRE_BACKEND" => "select" })
    assert_equal "0\n", output.out
  end
end
