# frozen_string_literal: true

# nginx as bench/http runs it: one worker, no access log, the same answers as apps/config.ru. The
# configuration and the two files it serves are written below tmp/bench; the system's own nginx is
# not touched.

require "fileutils"
require_relative "setup"

module Bench
  # Writes a configuration, gives the command line.
  module Nginx
    HELLO = "Hello from the benchmark.\n"
    FILES = { "12k" => 12_000, "12m" => 12_000_000, "static/10k" => 10_000, "static/10m" => 10_000_000 }.freeze

    module_function

    def command(port, pem = nil, http2: false)
      folder = File.join(WORK, "nginx")
      FileUtils.mkdir_p(File.join(folder, "tmp"))
      files
      configuration = File.join(folder, "nginx.conf")
      File.write(configuration, text(port, pem, http2))
      [Setup.program("nginx"), "-p", folder, "-c", configuration, "-e", "stderr"]
    end

    # Returns the folder with FILES, which are written first.
    def files
      folder = File.join(WORK, "nginx", "www")
      FileUtils.mkdir_p(File.join(folder, "static"))
      FILES.each { |name, size| File.write(File.join(folder, name), "x" * size) }
      folder
    end

    def version
      IO.popen([Setup.program("nginx"), "-v", { err: %i[child out] }], &:read)[%r{nginx/([\d.]+)}, 1]
    end

    # With TLS, tickets and ciphers are as Gyre has them.
    def text(port, pem, http2)
      listen = pem ? "ssl; ssl_certificate #{pem}; ssl_certificate_key #{pem}; ssl_protocols TLSv1.2 TLSv1.3; ssl_session_timeout 2h" : ""
      <<~CONFIGURATION
        #{'user root;' if Process.uid.zero?}
        daemon off;
        pid nginx.pid;
        error_log stderr;
        worker_processes 1;
        worker_rlimit_nofile #{Process.getrlimit(:NOFILE).first};
        events { worker_connections 20000; }
        http {
          access_log off;
          server_tokens off;
          sendfile on;
          tcp_nopush on;
          keepalive_requests 1000000000;
          keepalive_timeout 300s;
          default_type text/plain;
          open_file_cache max=10;
          client_body_temp_path tmp/body;
          proxy_temp_path tmp/proxy;
          fastcgi_temp_path tmp/fastcgi;
          uwsgi_temp_path tmp/uwsgi;
          scgi_temp_path tmp/scgi;
          server {
            listen 127.0.0.1:#{port} backlog=4096 #{'http2 ' if http2}#{listen};
            client_max_body_size 0;
            location = /up { proxy_pass http://127.0.0.1:#{port}/taken; } # its whole body is read first
            location = /taken { return 204; }
            location = / { return 200 "#{HELLO.chomp}\\n"; }
            location / { root www; etag off; add_header Last-Modified ""; }
          }
        }
      CONFIGURATION
    end
  end
end
