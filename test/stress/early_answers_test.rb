# frozen_string_literal: true

# Responses before the end of an upload, directly and through nginx, haproxy and Thruster (`gem
# install thruster`) where they are installed: the client gets the app's status each time, and never
# a proxy's 502.
# `rake test:early_answers` sends up to 200 MB, 200 times each; here it is a sample.

require "test_helper"
require "fileutils"
require "tmpdir"
require "http/serving"
require "support/engines"

module EarlyAnswers
  include GyreTest::HTTPServing

  # Sizes below and above body_bytes_limit, and the paths that decide about each.
  LARGE = ENV.key?("EARLY_ANSWERS")
  RUNS = LARGE ? Integer(ENV.fetch("EARLY_ANSWERS")) : 1
  UPLOADS = { 1_500_000 => %w[/401 /422], 5_000_000 => %w[/413], **(LARGE ? { 20_000_000 => %w[/413], 200_000_000 => %w[/413] } : {}) }.freeze
  PROXIES = { "nginx" => :nginx, "haproxy" => :haproxy, "thrust" => :thruster }.freeze
  # Thruster itself resets clients that send on for half a second after its response.
  THRUSTERS_OWN = %w[Errno::ECONNRESET Errno::EPIPE].freeze

  def test_the_client_gets_the_status_directly
    serving { |served| check(served.port) }
  end

  PROXIES.each do |program, configure|
    define_method(:"test_the_client_gets_the_status_through_#{program}") do
      skip "#{program} is not installed" unless ENV["PATH"].split(":").push("/usr/sbin").any? { |folder| File.executable?("#{folder}/#{program}") }

      serving do |served|
        Dir.mktmpdir do |folder|
          port = free_port
          pid = Process.spawn({ **without_bundle, "PATH" => "#{ENV.fetch("PATH")}:/usr/sbin" }, *send(configure, folder, port, served.port),
                              out: File::NULL, err: File::NULL, in: File::NULL)
          eventually(what: program) { TCPSocket.open("127.0.0.1", port).close || true rescue false }
          check(port, configure == :thruster ? THRUSTERS_OWN : [])
        ensure
          Process.kill(:TERM, pid)
          Process.wait(pid)
        end
      end
    end
  end

  private

  def serving(&block)
    app = lambda do |env|
      case env["PATH_INFO"]
      when "/401" then [401, {}, ["no"]]
      when "/422" then env["rack.input"].read(100_000) && [422, {}, ["half"]]
      else [200, {}, [env["rack.input"].read.bytesize.to_s]]
      end
    end
    serve(app, limits: { body_bytes_limit: 4_000_000 }, &block)
  end

  def check(port, others = [])
    UPLOADS.each do |size, paths|
      paths.product(%w[keep-alive close]).each do |path, connection|
        got = Array.new(RUNS) { status(port, path, size, connection) }
        assert_equal [path.delete("/")], [*got, path.delete("/")].uniq - others, "#{size} bytes to #{path}, #{connection}"
      end
    end
  end

  # Sends everything before it reads, as some clients and proxies do.
  def status(port, path, size, connection)
    TCPSocket.open("127.0.0.1", port) do |socket|
      piece = "x" * 100_000
      socket.write("POST #{path} HTTP/1.1\r\nhost: a\r\nconnection: #{connection}\r\ncontent-length: #{size}\r\n\r\n")
      (size / piece.bytesize).times { socket.write(piece) }
      socket.readpartial(100)[/ (\d{3}) /, 1]
    end
  rescue SystemCallError, EOFError => error
    error.class.name
  end

  def nginx(folder, port, upstream)
    File.write("#{folder}/nginx.conf", <<~TEXT)
      daemon off; worker_processes 1; pid #{folder}/pid; error_log #{folder}/error.log; #{"user root;" if Process.euid.zero?}
      events { worker_connections 64; }
      http {
        access_log off; client_max_body_size 0; proxy_http_version 1.1; proxy_request_buffering off;
        client_body_temp_path #{folder}/b; proxy_temp_path #{folder}/p; fastcgi_temp_path #{folder}/f;
        uwsgi_temp_path #{folder}/u; scgi_temp_path #{folder}/s;
        server { listen 127.0.0.1:#{port}; location / { proxy_pass http://127.0.0.1:#{upstream}; } }
      }
    TEXT
    ["nginx", "-p", folder, "-c", "#{folder}/nginx.conf"]
  end

  def haproxy(folder, port, upstream)
    File.write("#{folder}/haproxy.cfg", <<~TEXT)
      defaults
        mode http
        timeout connect 5s
        timeout client 60s
        timeout server 60s
      listen all
        bind 127.0.0.1:#{port}
        server gyre 127.0.0.1:#{upstream}
    TEXT
    ["haproxy", "-f", "#{folder}/haproxy.cfg"]
  end

  # Thruster is the parent of what it serves, hence the command at the end.
  def thruster(_folder, port, upstream)
    ["env", "HTTP_PORT=#{port}", "TARGET_PORT=#{upstream}", "thrust", "sleep", "600"]
  end
end

GyreTest::Engines.test_case("EarlyAnswersTest", backends: GyreTest::Engines::NATIVE.first(1)) { include EarlyAnswers }
