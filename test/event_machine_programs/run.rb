# frozen_string_literal: true

# Starts programs on EventMachine by `gyre em`, uses each once, and ends it. Called by
# `rake test:event_machine_programs`, which names the folder of the gems (gems.rb).
#
#   ruby test/event_machine_programs/run.rb BUNDLE

require "json"
require "net/http"
require "rbconfig"
require "socket"
require "timeout"
require "tmpdir"

module EventMachinePrograms
  ROOT = File.expand_path("../..", __dir__)
  LIMIT_S = 60

  # Programs that use a gem and end by themselves, with their output.
  SCRIPTS = {
    "em-http-request" => ["served\n", <<~RUBY],
      require "em-http-request"
      module Answers
        def receive_data(_)
          send_data("HTTP/1.1 200 OK\\r\\nContent-Length: 6\\r\\n\\r\\nserved")
          close_connection_after_writing
        end
      end
      EM.run do
        server = EM.start_server("127.0.0.1", 0, Answers)
        port = Socket.unpack_sockaddr_in(EM.get_sockname(server)).first
        request = EM::HttpRequest.new("http://127.0.0.1:\#{port}/").get
        request.callback { puts(request.response) || EM.stop }
        request.errback { abort request.error.to_s }
      end
    RUBY
    "em-websocket and faye-websocket" => ["echo hello\nclosed\n", <<~RUBY],
      require "em-websocket"
      require "faye/websocket"
      EM.run do
        port = TCPServer.open("127.0.0.1", 0) { |server| server.addr[1] }
        EM::WebSocket.run(host: "127.0.0.1", port: port) { |socket| socket.onmessage { |text| socket.send("echo \#{text}") } }
        client = Faye::WebSocket::Client.new("ws://127.0.0.1:\#{port}/")
        client.on(:open) { client.send("hello") }
        client.on(:message) { |event| puts(event.data) || client.close }
        client.on(:close) { puts("closed") || EM.stop }
      end
    RUBY
    "faye" => ["a message\n", <<~RUBY],
      require "faye"
      require "thin"
      Faye::WebSocket.load_adapter("thin")
      Thin::Logging.silent = true
      EM.run do
        port = TCPServer.open("127.0.0.1", 0) { |server| server.addr[1] }
        Thin::Server.new("127.0.0.1", port, Faye::RackAdapter.new(mount: "/faye", timeout: 25), signals: false).start
        client = Faye::Client.new("http://127.0.0.1:\#{port}/faye")
        client.subscribe("/news") { |message| puts(message["text"]) || EM.stop }.callback { client.publish("/news", "text" => "a message") }
      end
    RUBY
    "nats" => ["got a message\n", <<~RUBY]
      require "nats/client"
      # As much of a server as the client needs.
      module Server
        include EM::Protocols::LineText2
        def post_init = send_data("INFO {\\"server_id\\":\\"x\\",\\"version\\":\\"1\\",\\"max_payload\\":1000}\\r\\n")
        def receive_line(line)
          case line
          when /\\APING/ then send_data("PONG\\r\\n")
          when /\\ASUB (\\S+)\\s+(\\S+)/ then @id = $2
          when /\\APUB (\\S+)\\s+(\\d+)/ then (@subject = $1) && set_text_mode($2.to_i + 2)
          end
        end
        def receive_binary_data(data) = send_data("MSG \#{@subject} \#{@id} \#{data.bytesize - 2}\\r\\n\#{data}")
      end
      EM.run do
        server = EM.start_server("127.0.0.1", 0, Server)
        port = Socket.unpack_sockaddr_in(EM.get_sockname(server)).first
        NATS.connect(uri: "nats://127.0.0.1:\#{port}") do |nats|
          nats.subscribe("news") { |text| puts("got \#{text}") || EM.stop }
          nats.publish("news", "a message")
        end
      end
    RUBY
  }.freeze

  module_function

  def run(bundle)
    @environment = { "BUNDLE_GEMFILE" => "#{bundle}/Gemfile", "PATH" => "#{Dir["#{bundle}/gems/ruby/*/bin"].first}:#{ENV.fetch("PATH")}" }
    failed = [*SCRIPTS.keys, "thin", "mailcatcher", "jekyll"].reject do |name|
      Dir.mktmpdir { |folder| Timeout.timeout(LIMIT_S) { SCRIPTS.key?(name) ? script(name, folder) : __send__(name, folder) } }
      puts("#{name} works") || true
    rescue StandardError => error
      puts "#{name} fails: #{error.message}"
    end
    failed.empty?
  end

  def script(name, folder)
    expected, program = SCRIPTS.fetch(name)
    File.write("#{folder}/program.rb", program)
    output = IO.popen(command("program.rb"), chdir: folder, err: %i[child out], &:read)
    output == expected || raise("it printed #{output[0, 2000]}")
  end

  def thin(folder)
    File.write("#{folder}/config.ru", 'run ->(_) { [200, { "content-type" => "text/plain" }, ["thin"]] }')
    port = free_port
    started(folder, "thin", "start", "-a", "127.0.0.1", "-p", port) { await("thin") { get(port, "/") } }
  end

  # As a daemon, which is its usual state; its page ends it.
  def mailcatcher(folder)
    smtp, http = free_port, free_port
    IO.popen(command("mailcatcher", "--smtp-port", smtp, "--http-port", http), chdir: folder, err: %i[child out], &:read)
    await("[]") { get(http, "/messages") }
    TCPSocket.open("127.0.0.1", smtp) do |mail|
      ["HELO here", "MAIL FROM:<a@example.com>", "RCPT TO:<b@example.com>", "DATA", "Subject: a mail\r\n\r\ntext\r\n.", "QUIT"].each do |line|
        mail.gets
        mail.write("#{line}\r\n")
      end
    end
    await("a mail") { JSON.parse(get(http, "/messages")).first&.fetch("subject") }
  ensure
    Net::HTTP.start("127.0.0.1", http) { |client| client.delete("/") }
    await(Errno::ECONNREFUSED) { get(http, "/messages") }
  end

  def jekyll(folder)
    File.write("#{folder}/index.html", "---\n---\n<head></head>a page")
    port, live = free_port, free_port
    started(folder, "jekyll", "serve", "--livereload", "--livereload-port", live, "--port", port, "--host", "127.0.0.1", "--disable-disk-cache") do
      await(/a page/) { get(port, "/") }
      await(/livereload/i) { get(live, "/livereload.js") }
    end
  end

  def command(*arguments)
    [@environment, RbConfig.ruby, "-W0", "-rbundler/setup", "-I#{ROOT}/lib", "#{ROOT}/exe/gyre", "em", *arguments.map(&:to_s)]
  end

  def started(folder, *arguments)
    log = "#{folder}/log"
    pid = Process.spawn(*command(*arguments), chdir: folder, out: log, err: log)
    yield
  rescue StandardError => error
    raise "#{error.message}\n#{File.read(log)[0, 2000]}"
  ensure
    Process.kill(:INT, pid)
    Process.wait(pid)
  end

  def get(port, path) = Net::HTTP.get(URI("http://127.0.0.1:#{port}#{path}"))

  def free_port = TCPServer.open("127.0.0.1", 0) { |server| server.addr[1] }

  def await(expected)
    until (found = begin
      yield
    rescue SystemCallError, IOError => error
      error
    end) && expected === found
      raise "no #{expected.inspect}, but #{found.inspect}" if (@tries = @tries.to_i + 1) > 600

      sleep 0.1
    end
    @tries = 0
  end
end

exit EventMachinePrograms.run(ARGV.fetch(0))
