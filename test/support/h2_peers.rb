# frozen_string_literal: true

# HTTP/2 servers of others, on ports of their own, with one page of more than five bytes. For tests
# that check the tests. No test itself.

require "fileutils"
require "socket"
require "tmpdir"
require_relative "certificates"

module GyreTest
  # nginx and nghttpd.
  class H2Peers
    # Returns the ports, by :plain and :tls.
    attr_reader :ports

    def initialize(kind, program)
      @folder = Dir.mktmpdir("gyre-h2")
      @certificate, @key = Certificates.new(@folder).issue("server")
      File.write(File.join(@folder, "index.html"), "a page of a server\n")
      @ports = %i[plain tls].to_h { |way| [way, Helpers.free_port] }
      @pids = send(kind, program)
      @ports.each_value { |port| sleep 0.005 until listens?(port) }
    end

    def connect(way)
      plain = TCPSocket.new("127.0.0.1", @ports.fetch(way))
      plain.setsockopt(:TCP, :NODELAY, true)
      way == :tls ? H2Client.tls(plain) : plain
    end

    def close
      @pids.each do |pid|
        Process.kill(:TERM, pid)
        Process.wait(pid)
      end
      FileUtils.remove_entry(@folder)
    end

    private

    def listens?(port)
      TCPSocket.open("127.0.0.1", port).close.nil?
    rescue Errno::ECONNREFUSED
      false
    end

    def nghttpd(program)
      options = [program, "-d", @folder, "-a", "127.0.0.1"]
      [spawn(*options, "--no-tls", @ports[:plain].to_s), spawn(*options, @ports[:tls].to_s, @key, @certificate)]
    end

    def nginx(program)
      path = File.join(@folder, "nginx.conf")
      File.write(path, <<~CONFIGURATION)
        daemon off; master_process off; pid #{@folder}/pid; error_log /dev/null;
        events {}
        http {
          access_log off; client_body_temp_path #{@folder}/a; proxy_temp_path #{@folder}/b; fastcgi_temp_path #{@folder}/c;
          uwsgi_temp_path #{@folder}/d; scgi_temp_path #{@folder}/e;
          server {
            listen 127.0.0.1:#{@ports[:plain]} http2; listen 127.0.0.1:#{@ports[:tls]} ssl http2;
            ssl_certificate #{@certificate}; ssl_certificate_key #{@key};
            location / { root #{@folder}; error_page 405 =200 $uri; }
          }
        }
      CONFIGURATION
      [spawn(program, "-p", @folder, "-c", path)]
    end

    def spawn(*command)
      Process.spawn(*command, in: File::NULL, out: File::NULL, err: File::NULL)
    end
  end
end
