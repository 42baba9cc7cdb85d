# frozen_string_literal: true

# What else the log server listens for: syslog over TCP, UDP and Unix sockets, lines of JSON, and
# TLS in front of each.

require "test_helper"
require "support/openssl_peer"
require "support/certificates"
require "support/engines"
require "support/log_server"

GyreTest::Engines.test_case("LogServerInputsTest", backends: GyreTest::Engines::NATIVE.first(1)) do
  def test_syslog_over_tcp_with_each_framing
    serve("tcp://127.0.0.1:0") do |server, endpoint|
      lines = server.connect(endpoint)
      lines.write(messages.map { |message| "#{message}\n" }.join)
      octets = server.connect(endpoint)
      octets.write(messages.map { |message| "#{message.bytesize} #{message}" }.join)
      zeros = server.connect(endpoint)
      zeros.write(messages.map { |message| "#{message}\0" }.join)
      eventually { server.lines.size == 6 }
      assert_equal %w[app|error app|error app|error tag|info tag|info tag|info], heads(server).sort
      lines.write("<11>1 - - last - - - without its line's end")
      lines.close
      eventually { heads(server).include?("last|error") }
      [octets, zeros].each(&:close)
    end
  end

  def test_syslog_over_udp
    serve("udp://127.0.0.1:0") do |server, endpoint|
      sender = UDPSocket.new
      sender.connect(endpoint.host, endpoint.port)
      sender.send("", 0)
      sender.send("\xFF\0 rubbish", 0)
      (0...500).each_slice(50) do |numbers|
        numbers.each { |number| sender.send("<14>1 - - app - - - #{number}", 0) }
        eventually { server.lines.grep(/\Aapp\|info\|/).size == numbers.last + 1 }
      end
      assert_equal (0...500).to_a, server.lines.grep(/\Aapp/).map { |line| line[/\d+\z/].to_i }
      sender.close
    end
  end

  def test_syslog_over_unix_sockets
    Dir.mktmpdir do |folder|
      serve("unixgram://#{folder}/log?mode=0666") do |server, endpoint|
        assert_equal 0o666, File.stat(endpoint.path).mode & 0o777
        sender = Socket.new(:UNIX, :DGRAM)
        sender.connect(Addrinfo.unix(endpoint.path))
        messages.each { |message| sender.send(message, 0) }
        eventually { heads(server) == %w[app|error tag|info] }
        sender.close
      end
      refute_path_exists "#{folder}/log"
      serve("unix://#{folder}/log") do |server, endpoint|
        sender = UNIXSocket.new(endpoint.path)
        sender.write(messages.join("\n"))
        sender.close
        eventually { heads(server) == %w[app|error tag|info] }
      end
    end
  end

  def test_a_long_datagram_of_a_unix_socket_is_whole_up_to_the_limit
    Dir.mktmpdir do |folder|
      serve("unixgram://#{folder}/log", limits: { message_bytes_limit: 100_000 }) do |server, endpoint|
        sender = Socket.new(:UNIX, :DGRAM)
        sender.connect(Addrinfo.unix(endpoint.path))
        sender.send("<14>job: #{"x" * 90_000}", 0)
        eventually { server.lines == ["job|info|#{"x" * 90_000}"] }
        sender.send("<14>job: #{"y" * 110_000}", 0)
        eventually { server.lines.grep(/\Agyre\|warn\|.*1 message was cut at 100000 bytes/).size == 1 }
        assert_includes server.lines, "job|info|#{"y" * (100_000 - 9)}"
        sender.close
      end
    end
  end

  def test_a_message_of_syslog_without_a_host_has_its_senders_address
    Dir.mktmpdir do |folder|
      inputs = [{ type: "syslog", bind: ["udp://127.0.0.1:0", "tcp://127.0.0.1:0"] }]
      GyreTest::LogServer.open(inputs: inputs, default_log: { logfile: "#{folder}/json", format: "json" }) do |server|
        udp, tcp = server.server.endpoints.last(2)
        sender = UDPSocket.new
        sender.connect(udp.host, udp.port)
        sender.send("<12>cron[7]: a", 0)
        stream = server.connect(tcp)
        stream.write("<12>cron: b\n<13>1 - far - - - - c\n")
        eventually { server.lines("#{folder}/json").size == 3 }
        found = server.lines("#{folder}/json").map { |line| JSON.parse(line).values_at("message", "host", "pid", "facility") }
        assert_equal [["a", "127.0.0.1", 7, "user"], ["b", "127.0.0.1", nil, "user"], ["c", "far", nil, "user"]], found.sort_by(&:first)
        [sender, stream].each(&:close)
      end
    end
  end

  def test_a_connection_without_a_byte_leaves_no_line
    serve("tcp://127.0.0.1:0") do |server, endpoint|
      [nil, "<14>a: half"].each do |bytes|
        socket = TCPSocket.new(endpoint.host, endpoint.port)
        socket.write(bytes) if bytes
        eventually { server.server.status[:clients].sum { |client| client[:bytes] } == bytes.bytesize } if bytes
        socket.setsockopt(:SOCKET, :LINGER, [1, 0].pack("ii"))
        socket.close
      end
      eventually { server.lines.grep(/\Agyre\|warn\|/).size == 1 }
      assert_includes server.lines, "a|info|half"
    end
  end

  # The way that C programs go: syslog(3) connects to a datagram socket and sends without a line's
  # end.
  def test_the_systems_own_logger_is_understood
    logger = need_program("logger")
    Dir.mktmpdir do |folder|
      serve("unixgram://#{folder}/log") do |server, endpoint|
        assert_predicate run_program(logger, "-u", endpoint.path, "-t", "job", "-p", "user.err", "it failed").status, :success?
        eventually { heads(server) == %w[job|error] }
        assert_match(/it failed\z/, server.lines.first)
      end
      serve("tcp://127.0.0.1:0") do |server, endpoint|
        run_program(logger, "-n", endpoint.host, "-P", endpoint.port.to_s, "-T", "--octet-count", "-t", "job", "-p", "user.info", "over tcp")
        eventually { heads(server) == %w[job|info] }
      end
    end
  end

  def test_lines_of_json
    serve("tcp://127.0.0.1:0", type: "json", limits: { message_bytes_limit: 1000 }) do |server, endpoint|
      client = server.connect(endpoint)
      client.write(%({"service":"web","severity":"warn","message":"slow"}\n{"message":"bare"}\n))
      eventually { server.lines.size == 2 }
      assert_equal "web|warn|slow", server.lines.first
      client.write("#{"x" * 2000}\n{\"message\":\"behind it\"}\n")
      eventually { server.lines.grep(/\Agyre\|warn\|127\.0\.0\.1:\d+: 1 message was cut at 1000 bytes/).size == 1 }
      eventually { server.lines.include?("json|info|#{"x" * 1000}") && server.lines.include?("json|info|behind it") }
      assert_equal 1, server.server.status[:cut]
      client.close
    end
  end

  # In two packets: an account of what is incomplete that went below zero would look like a full
  # memory without end.
  def test_a_line_of_json_that_the_library_refuses_costs_no_other_message
    serve("tcp://127.0.0.1:0", type: "json") do |server, endpoint|
      other = server.connect(endpoint)
      client = server.connect(endpoint)
      client.write('{"service":"odd","level":"\udc00')
      eventually { server.server.ingest.incomplete.positive? }
      client.write(%(","message":"x"}\n))
      other.write(%({"message":"others go on"}\n))
      eventually { server.lines.include?("json|info|others go on") && server.server.status[:bytes].zero? }
      refute server.server.status[:paused]
      client.write(%({"message":"so does this one"}\n))
      eventually { server.lines.include?("json|info|so does this one") }
      [client, other].each(&:close)
    end
  end

  # An unforeseen end of a connection: the parser itself fails.
  def test_a_fault_in_a_parser_ends_its_connection_and_nothing_else
    serve("tcp://127.0.0.1:0", type: "json") do |server, endpoint|
      client, other = server.connect(endpoint), server.connect(endpoint)
      client.write("half")
      eventually { server.server.ingest.incomplete == 4 }
      parse = Gyre::Log::JSONLines.method(:parse)
      failing = ->(line) { line.include?("half") ? raise(SystemStackError, "too deep") : parse.call(line) }
      Gyre::Log::JSONLines.stub(:parse, failing) do
        client.write(" of it\n")
        assert_closed client
        other.write("the other\n")
        eventually { server.lines.include?("json|info|the other") }
      end
      assert_equal [0, 1], [server.server.ingest.bytesize, server.server.status[:connections]]
      assert_includes server.report, "too deep"
      [client, other].each(&:close)
    end
  end

  def test_a_message_beyond_the_limit_costs_none_behind_it
    serve("tcp://127.0.0.1:0", limits: { message_bytes_limit: 1000 }) do |server, endpoint|
      client = server.connect(endpoint)
      [->(text) { "#{text}\n" }, ->(text) { "#{text.bytesize} #{text}" }].each do |framed|
        client.write(framed.call("<14>1 - - app - - - #{"x" * 2000}") + framed.call("<14>next: behind it"))
      end
      eventually { server.lines.grep(/\Anext\|info\|behind it\z/).size == 2 }
      eventually { server.lines.grep(/\Agyre\|warn\|.*cut at 1000 bytes/).any? && server.server.status[:cut] == 2 }
      assert_equal 2, server.lines.count("app|info|#{"x" * 980}")
      client.close
    end
  end

  def test_many_datagrams_are_written_before_the_interval_is_over
    Dir.mktmpdir do |folder|
      GyreTest::LogServer.open(inputs: [{ type: "syslog", bind: "unixgram://#{folder}/log" }], interval: 60) do |server|
        client = Socket.new(:UNIX, :DGRAM)
        client.connect(Addrinfo.unix("#{folder}/log"))
        1200.times { client.write("<13>#{"x" * 1000}") }
        eventually { server.lines.size > 1000 }
        client.close
      end
    end
  end

  # --- TLS ---

  def test_clients_with_the_right_certificate_are_served_and_named
    with_certificates do |tls, certificates|
      GyreTest::LogServer.open(tls: tls) do |server|
        certificate, key = certificates.issue("client")
        client = secure(server, ca: tls[:ca], cert: certificate, key: key)
        bytes = Gyre::Log::Wire.frame("web", "authentication", "") + (Gyre::Log::Wire.frame("web", "info", "x" * 1000) * 2000)
        client.write(bytes)
        assert_equal "accepted\n", client.gets
        eventually { server.lines.size == 2000 }
        assert_equal ["web|info|#{"x" * 1000}"], server.lines.uniq
        assert_match(/\A127\.0\.0\.1:\d+ \(CN=client\)\z/, server.server.status[:clients].first[:peer])
        client.write("rubbish.")
        assert_equal "error: checksum failed\n", client.gets
        client.close
        eventually { server.lines.last.match?(/CN=client\): checksum failed/) }
      end
    end
  end

  # They lie in libssl when the handshake ends, and the kernel reports nothing any more.
  def test_messages_in_the_packet_that_ends_the_handshake_are_read
    skip "TCP_CORK is Linux's" unless defined?(Socket::TCP_CORK)
    with_certificates do |tls, certificates|
      GyreTest::LogServer.open(tls: tls, limits: { authentication_timeout_s: nil }) do |server|
        certificate, key = certificates.issue("client")
        client = OpenSSL::SSL::SSLSocket.new(socket = server.connect,
                                             GyreTest::OpenSSLPeer.client(ca: tls[:ca], cert: certificate, key: key))
        client.hostname = "localhost"
        client.sync_close = true
        assert_equal :wait_readable, client.connect_nonblock(exception: false)
        socket.setsockopt(:TCP, Socket::TCP_CORK, 1)
        socket.wait_readable while client.connect_nonblock(exception: false) == :wait_readable
        client.write(Gyre::Log::Wire.frame("web", "authentication", "") + Gyre::Log::Wire.frame("web", "info", "hello"))
        socket.setsockopt(:TCP, Socket::TCP_CORK, 0)
        eventually { server.lines == ["web|info|hello"] }
        client.close
      end
    end
  end

  # As many clients end. Messages have their length, so none is cut off unseen.
  def test_a_client_that_ends_without_close_notify_is_not_a_fault
    with_certificates do |tls, certificates|
      certificate, key = certificates.issue("client")
      GyreTest::LogServer.open(tls: tls) do |server|
        %w[first second].each do |text|
          client = secure(server, ca: tls[:ca], cert: certificate, key: key)
          client.write(Gyre::Log::Wire.frame("web", "authentication", "") + Gyre::Log::Wire.frame("web", "info", text))
          assert_equal "accepted\n", client.gets
          client.to_io.close
          eventually { server.server.status[:connections].zero? }
        end
        eventually { server.lines.include?("web|info|second") }
        assert_equal ["web|info|first", "web|info|second"], server.lines
      end
    end
  end

  def test_others_are_not_served_and_do_no_harm
    with_certificates do |tls, certificates|
      GyreTest::LogServer.open(tls: tls, limits: { authentication_timeout_s: 0.5 }) do |server|
        stranger = certificates.issue("stranger", by: "elsewhere")
        assert_turned_away server, ca: tls[:ca]
        assert_turned_away server, ca: tls[:ca], cert: stranger[0], key: stranger[1]
        plain = server.connect
        plain.write("GET / HTTP/1.0\r\n\r\n")
        assert_closed plain
        silent = server.connect
        assert_closed silent
        eventually { server.lines.grep(/\Agyre\|warn\|127\.0\.0\.1:\d+: .*(?:TLS handshake|no authentication)/).size == 4 }
        [plain, silent].each(&:close)
      end
    end
  end

  def test_a_foreign_tls_program_is_understood
    openssl = need_program("openssl")
    with_certificates do |tls, certificates|
      certificate, key = certificates.issue("client")
      serve("tcp://127.0.0.1:0", tls: tls) do |server, endpoint|
        output = run_program(openssl, "s_client", "-connect", "127.0.0.1:#{endpoint.port}", "-CAfile", tls[:ca], "-cert", certificate, "-key", key,
                             "-verify_return_error", "-quiet", "-no_ign_eof", stdin: messages.map { |message| "#{message.bytesize} #{message}" }.join)
        assert_predicate output.status, :success?, output.err
        eventually { heads(server) == %w[app|error tag|info] }
      end
    end
  end

  def test_the_end_comes_in_order_for_tls
    with_certificates do |tls, certificates|
      certificate, key = certificates.issue("client")
      server = GyreTest::LogServer.new(tls: tls)
      client = secure(server, ca: tls[:ca], cert: certificate, key: key)
      client.write(Gyre::Log::Wire.frame("web", "authentication", "") + Gyre::Log::Wire.frame("web", "info", "hello"))
      assert_equal "accepted\n", client.gets
      eventually { server.lines == ["web|info|hello"] }
      assert_equal true, server.stop
      assert_nil client.gets # an end without close_notify would be an error
      client.close
    end
  end

  private

  def messages
    ["<11>1 2026-11-21T19:20:00Z host app 42 - - gone", "<14>Nov 21 19:20:00 host tag[7]: hello"]
  end

  def serve(bind, type: "syslog", limits: {}, tls: nil)
    GyreTest::LogServer.open(inputs: [{ type: type, bind: bind, tls: !tls.nil? }], tls: tls, limits: limits) do |server|
      yield server, server.server.endpoints.last
    end
  end

  # Service and severity of each line.
  def heads(server)
    server.lines.map { |line| line[/\A[^|]*\|[^|]*/] }
  end

  def with_certificates
    Dir.mktmpdir do |folder|
      certificates = GyreTest::Certificates.new(folder)
      certificate, key = certificates.issue("server")
      yield({ cert: certificate, key: key, ca: certificates.authority }, certificates)
    end
  end

  def secure(server, **identity)
    socket = server.connect
    client = OpenSSL::SSL::SSLSocket.new(socket, GyreTest::OpenSSLPeer.client(**identity))
    client.sync_close = true
    client.hostname = "localhost"
    client.connect
    client
  rescue OpenSSL::SSL::SSLError
    socket.close
    raise
  end

  # With TLS 1.3 the client finds it out when it reads.
  def assert_turned_away(server, **identity)
    client = nil
    assert_raises(OpenSSL::SSL::SSLError, SystemCallError) { (client = secure(server, **identity)).gets }
  ensure
    client&.close
  end

  def assert_closed(socket)
    assert socket.wait_readable(30), "the server does not close"
    socket.read
  rescue Errno::ECONNRESET
    pass
  end
end
