# frozen_string_literal: true

# `gyre serve` over TLS as users run it, with curl and openssl as clients: addresses, the word tls,
# the certificate for development, certificates of clients, HUP.

require "test_helper"
require "support/certificates"
require "support/openssl_peer"
require "gyre/http/h2"
require_relative "serving"

class WebTLSServeTest < Minitest::Test
  include GyreTest::Serving

  APP = <<~'RUBY'
    run ->(env) { [200, { "content-type" => "text/plain" }, [env.values_at("rack.url_scheme", "SSL_CLIENT_S_DN", "SERVER_NAME").inspect]] }
  RUBY

  def setup
    @folder = Dir.mktmpdir("gyre")
    @certificates = GyreTest::Certificates.new(@folder)
    @certificate, @key = @certificates.issue("server", alt: "DNS:localhost,DNS:www.example.test,IP:127.0.0.1")
    @ca = @certificates.authority
  end

  def teardown
    FileUtils.rm_rf(@folder)
    super
  end

  def test_an_address_with_a_certificate
    serve("-b", "ssl://127.0.0.1:0?cert=#{@certificate}&key=#{@key}", app: APP, port: false) do |program|
      assert_equal ["https", nil, "127.0.0.1"].inspect, curl(program, "/").out
      assert_equal "this port speaks TLS: use https://\r\n", run_program("curl", "-s", "http://127.0.0.1:#{port(program)}/").out
      refused = %w[-tls1 -tls1_1].map { |version| s_client(program, version, "-cipher", "ALL:COMPLEMENTOFALL:@SECLEVEL=0") } +
                %w[AES128-SHA AES256-GCM-SHA384 DHE-RSA-AES128-GCM-SHA256 ECDHE-ECDSA-AES128-SHA NULL-SHA256 ADH-AES128-GCM-SHA256].map do |cipher|
                  s_client(program, "-tls1_2", "-cipher", "#{cipher}:@SECLEVEL=0")
                end
      refused.each { |output| assert_match(/Cipher is \(NONE\)/, output.out, output.err) }
      plain = s_client(program, "-tls1_2").out
      assert_match(/Compression: NONE/, plain)
      assert_match(/Secure Renegotiation IS supported/, plain) # RFC 5746; none is made
    end
  end

  def test_the_protocol_is_agreed_on
    serve("-b", "ssl://127.0.0.1:0?cert=#{@certificate}&key=#{@key}", app: APP, port: false) do |program|
      both = s_client(program, "-alpn", "http/1.1,h2").out
      assert_includes both, "ALPN protocol: #{Gyre::HTTP::H2.available? ? "h2" : "http/1.1"}"
      assert_includes s_client(program, "-alpn", "http/1.1").out, "ALPN protocol: http/1.1"
      assert_match(/no application protocol/, s_client(program, "-alpn", "spdy/3").err)
      assert_equal ["https", nil, "127.0.0.1"].inspect, curl(program, "/", "--http1.1").out
    end
  end

  def test_a_certificate_for_development_is_kept
    Dir.mktmpdir("gyre") do |cache|
      path = File.join(cache, "gyre", "tls", "localhost.pem")
      pem = Array.new(2) do
        serve("--tls", env: { "XDG_CACHE_HOME" => cache }, app: APP) do |program|
          assert_match %r{certificate for development: #{path}$.*listening on https://127}m, program.text(:out)
          assert_equal ["https", nil, "localhost"].inspect, curl(program, "/", ca: path, host: "localhost").out
          File.read(path)
        end
      end
      assert_equal 1, pem.uniq.size
      assert_equal 0o600, File.stat(path).mode & 0o777
    end
  end

  def test_the_configuration_names_certificates_by_host
    other, key = @certificates.issue("other", alt: "DNS:*.example.test")
    config = <<~RUBY
      bind "ssl://127.0.0.1:0"
      tls cert: "#{@certificate}", key: "#{@key}"
      tls "*.example.test", cert: File.read("#{other}"), key: File.read("#{key}")
    RUBY
    serve("-C", "gyre.rb", app: APP, files: { "gyre.rb" => config }, port: false) do |program|
      { "api.example.test" => "other", "localhost" => "server" }.each do |host, subject|
        output = curl(program, "/", "-v", host: host)
        assert_equal ["https", nil, host].inspect, output.out
        assert_match(/subject: CN=#{subject}$/, output.err)
      end
    end
  end

  def test_certificates_of_clients_are_required_or_taken
    certificate, key = @certificates.issue("client")
    stranger = @certificates.issue("stranger", by: "others")
    own = ["--cert", certificate, "--key", key]
    { "" => "", "&verify=optional" => ["https", nil, "127.0.0.1"].inspect }.each do |verify, without|
      serve("-b", "ssl://127.0.0.1:0?cert=#{@certificate}&key=#{@key}&ca=#{@ca}#{verify}", app: APP, port: false) do |program|
        assert_equal ["https", "CN=client", "127.0.0.1"].inspect, curl(program, "/", *own).out
        assert_equal without, curl(program, "/").out
        assert_equal "", curl(program, "/", "--cert", stranger[0], "--key", stranger[1]).out
      end
    end
  end

  def test_a_hang_up_reads_certificates_again
    files = [@certificate, @key]
    serve("-b", "ssl://127.0.0.1:0?cert=#{@certificate}&key=#{@key}", app: APP, port: false) do |program|
      kept = connect(program)
      assert_equal "CN=server", subject(kept)
      @certificates.issue("renewed").zip(files).each { |from, to| FileUtils.cp(from, to) }
      program.signal(:HUP)
      program.expect(/^Certificates were read again$/)
      renewed = connect(program)
      assert_equal "CN=renewed", subject(renewed)
      File.write(@key, "rubbish")
      program.signal(:HUP)
      program.expect(/tls: the key #{@key} cannot be read: .*The certificates in use stay$/, :err)
      [kept, renewed].each { |socket| assert_match(/200 OK/, request(socket)) }
      assert_match(/renewed/, curl(program, "/", "-v").err)
    ensure
      [kept, renewed].compact.each(&:close)
    end
  end

  def test_workers_resume_each_others_sessions_also_after_a_rolling_restart
    app = 'run ->(env) { [200, { "content-type" => "text/plain" }, ["#{env["rack.url_scheme"]} #{Process.pid}"]] }'
    serve("-w", "2", "-b", "ssl://127.0.0.1:0?cert=#{@certificate}&key=#{@key}", app: app, port: false) do |program|
      before = workers(program, 2)
      text = File.read(@certificate)
      File.write(@certificate, "rubbish")
      program.signal(:USR1)
      program.expect(/the certificate #{@certificate} holds no PEM certificate/, :err)
      assert_equal before, workers(program, 2)
      refute_match(/worker \d|\.rb:\d/, program.text(:err)) # the mold has found it out
      File.write(@certificate, text)
      program.signal(:USR1)
      program.expect(/Rolling restart: all workers run the new code/)
      assert_empty before & workers(program, 2)
      @certificates.issue("renewed").zip([@certificate, @key]).each { |from, to| FileUtils.cp(from, to) }
      program.signal(:HUP)
      eventually { Array.new(8) { connect(program).tap(&:close).peer_cert.subject.to_a[0][1] }.uniq == ["renewed"] }
    end
  end

  def test_a_certificate_that_ends_soon_is_reported_once_for_all_workers
    certificate, key = @certificates.issue("soon", to: Time.now + (3 * 86_400))
    serve("-w", "2", "-b", "ssl://127.0.0.1:0?cert=#{certificate}&key=#{key}", app: APP, port: false) do |program|
      assert_equal 1, program.text(:err).scan("the certificate #{certificate} ends at").size
    end
  end

  def test_ctl_reload_fails_with_the_reason_if_a_certificate_cannot_be_used
    serve("-w", "1", "--state", "s.state", "-b", "ssl://127.0.0.1:0?cert=#{@certificate}&key=#{@key}", app: APP, port: false) do |program|
      reload = -> { ruby(EXE, "ctl", "--state", "s.state", "reload", chdir: program.folder) }
      assert_equal "reload: done\n", reload.call.out
      File.write(@certificate, "rubbish")
      output = reload.call
      assert_equal 1, output.status.exitstatus
      assert_match(/\Agyre ctl: reload: tls: the certificate #{@certificate} .*\. The certificates in use stay\n\z/, output.err)
      assert_match(/https/, curl(program, "/").out)
    end
  end

  def test_check_reads_the_certificates
    text = %(bind "ssl://127.0.0.1:0"\ntls cert: "#{@certificate}", key: "#{@key}"\n)
    output = gyre("serve", "-C", "tls.rb", "--check", files: { "tls.rb" => text, "config.ru" => APP }, gems: true)
    assert_equal ["configuration OK\n", ""], [output.out, output.err]
    output = gyre("serve", "-C", "tls.rb", "--check", files: { "tls.rb" => text.sub(@key, "missing.key"), "config.ru" => APP }, gems: true)
    assert_equal [1, "gyre serve: tls: the key missing.key: No such file or directory\n"], [output.status.exitstatus, output.err]
  end

  def test_tls_for_development_is_for_workers_as_well
    Dir.mktmpdir("gyre") do |cache|
      serve("-w", "1", "--tls", env: { "XDG_CACHE_HOME" => cache }, app: APP) do |program|
        assert_equal "https", program.urls.first[/\A\w+/]
        ca = File.join(cache, "gyre", "tls", "localhost.pem")
        assert_equal ["https", nil, "localhost"].inspect, curl(program, "/", ca: ca, host: "localhost").out
      end
    end
  end

  def test_a_start_that_fails_names_the_file_in_one_line
    { ["-b", "ssl://127.0.0.1:0?cert=missing.pem&key=#{@key}"] => [1, /\Agyre serve: tls: the certificate missing.pem: No such file or directory$/],
      ["-b", "ssl://127.0.0.1:0"] => [1, %r{\Agyre serve: ssl://127.0.0.1:\d+: a certificate is missing: write \?cert=PATH&key=PATH after}],
      ["-b", "ssl://127.0.0.1:0?cert=a"] => [2, %r{\Agyre serve: --bind: ssl://127.0.0.1:0: a cert needs its key}] }.each do |flags, (status, words)|
      output = gyre("serve", *flags, files: { "config.ru" => APP }, gems: true)
      assert_equal status, output.status.exitstatus
      assert_match words, output.err
      refute_match(/\.rb:\d+/, output.err)
    end
  end

  private

  # Connects until so many workers have answered; each connection but the first resumes.
  def workers(program, count)
    pids = []
    eventually(what: "answers of #{count} workers") do
      sockets = Array.new(8) do
        connect(program, session: @session).tap do |socket|
          assert_equal !@session.nil?, socket.session_reused?
          @session ||= socket.session
        end
      end
      pids |= sockets.map { |socket| Integer(request(socket)[/https (\d+)\z/, 1]) }
      sockets.each(&:close)
      pids.size >= count
    end
    pids.sort
  end

  def port(program) = Integer(program.urls.find { |url| url.start_with?("https://") }[/\d+\z/])

  def curl(program, path, *flags, ca: @ca, host: "127.0.0.1")
    run_program(need_program("curl"), "-sS", "--cacert", ca, "--resolve", "#{host}:#{port(program)}:127.0.0.1", *flags,
                "https://#{host}:#{port(program)}#{path}")
  end

  def s_client(program, *flags)
    run_program(need_program("openssl"), "s_client", "-connect", "127.0.0.1:#{port(program)}", *flags)
  end

  # By TLS 1.2, where a session is there with the handshake.
  def connect(program, session: nil)
    context = GyreTest::OpenSSLPeer.client { |each| each.max_version = OpenSSL::SSL::TLS1_2_VERSION }
    socket = OpenSSL::SSL::SSLSocket.new(TCPSocket.new("127.0.0.1", port(program)), context)
    socket.sync_close = true
    socket.session = session if session
    socket.connect
  end

  def subject(socket) = socket.peer_cert.subject.to_s(OpenSSL::X509::Name::RFC2253)

  def request(socket)
    socket.write("GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
    socket.readpartial(1000)
  end
end
