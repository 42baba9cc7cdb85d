# frozen_string_literal: true

require "test_helper"

class HTTP1Test < Minitest::Test
  def test_one_require_is_enough_for_a_server
    output = ruby("-e", <<~'RUBY')
      require "gyre/http"
      listener = TCPServer.new("127.0.0.1", 0)
      Gyre.run do
        server = Gyre::HTTP::Server.new(->(env) { [200, {}, ["you asked for #{env["PATH_INFO"]}"]] }, listeners: [listener]).start
        client = TCPSocket.new("127.0.0.1", listener.local_address.ip_port)
        client.write("GET /this HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        puts client.read.lines.last
        server.shutdown(1)
      end
    RUBY
    assert_equal ["you asked for /this\n", true], [output.out, output.status.success?], output.err
  end

  def test_without_the_extension_a_server_reports_in_one_line_what_to_do
    code = <<~'RUBY'
      require "gyre/web"
      { available: false, load_error: "no gyre_ext" }.each { |name, value| Gyre::Native.instance_variable_set(:"@#{name}", value) } if ARGV.any?
      [-> { Gyre::HTTP::Server.new(nil, listeners: []) }, -> { Gyre::Web.serve(->(_) {}) }].each do |start|
        start.call
      rescue Gyre::ExtensionRequired => error
        puts error.message
      end
      puts $LOADED_FEATURES.grep(/gyre_ext/).size
    RUBY
    ruled_out = "the HTTP server needs Gyre's C extension: GYRE_BACKEND=select runs only the loop and the scheduler; unset it\n"
    assert_equal "#{ruled_out * 2}0\n", ruby("-e", code, env: { "GYRE_BACKEND" => "select" }).out
    absent = "the HTTP server needs Gyre's C extension: no gyre_ext; install make, a C compiler and Ruby's headers " \
             "(Debian: build-essential ruby-dev), then reinstall the gem (in a checkout: rake compile)\n"
    assert_equal absent * 2, ruby("-e", code, "none", env: { "GYRE_BACKEND" => nil }).out.lines.first(2).join
  end
end
