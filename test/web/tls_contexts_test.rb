# frozen_string_literal: true

# TLS of a web server: settings in addresses and in the configuration file, certificates, host
# names, and certificates that are read again: Gyre::Web::Addresses, TLSContexts, Server.

require "test_helper"
require "stringio"
require "gyre/web"
require "gyre/web/config"
require "support/certificates"
require "support/openssl_peer"
require "support/transports"

class WebTLSContextsTest < Minitest::Test
  def setup
    @certificates = GyreTest::Certificates.new(Dir.mktmpdir("gyre"))
    @certificate, @key = GyreTest::Transports.identity("server")
    @ca = GyreTest::Transports.certificates.authority
    @out = StringIO.new
    @err = StringIO.new
  end

  def teardown
    @server&.stop(now: true)
    @server&.wait
    @server&.close
    FileUtils.rm_rf(@certificates.path(""))
    super
  end

  # --- settings ---

  def test_an_address_has_the_settings_after_it
    endpoint = read("ssl://localhost:9292?cert=/etc/a%20b.pem&key=a.key&verify=optional&ca=ca.pem&crl=crl.pem")
    assert_equal({ cert: "/etc/a b.pem", key: "a.key", verify: :optional, ca: "ca.pem", crl: "crl.pem" }, endpoint.tls)
    assert_equal %w[ssl://localhost:9292 https://localhost:9292], [endpoint.to_s, endpoint.url]
    assert_equal({}, read("https://localhost").tls)
    unix = read("unix:///run/app.sock?cert=a&key=b&mode=0600")
    assert_equal [0o600, { cert: "a", key: "b" }, "unix:///run/app.sock"], [unix.mode, unix.tls, unix.to_s]
  end

  def test_a_wrong_setting_is_named
    { "cert=a" => "a cert needs its key", "cert=a&key=b&cert_pem=c" => "cert_pem: unknown setting of TLS; write cert",
      "cert=a&key=b&verify=yes" => "verify: must be true, false or optional", "crt=a&key=b" => "did you mean cert?",
      "cert=a&key=b&verify_mode=peer" => "write verify: true (force_peer) or optional (peer)",
      "certificate=a" => "write cert", "cert=a&key=b&no_tlsv1_1=true" => "leave it out: versions before TLS 1.2",
      "cert" => "name=value", "cert=a&key=b&verification_flags=CRL_CHECK" => "write crl" }.each do |query, words|
      error = assert_raises(ArgumentError, query) { read("ssl://localhost?#{query}") }
      assert_includes error.message, words
    end
  end

  def test_the_configuration_file_has_a_word_for_certificates
    assert_equal({ tls: [{ cert: "a", key: "b" }, { cert: "c", key: "d", names: %w[example.net *.example.net] }] }, evaluate(<<~RUBY))
      tls cert: "a", key: "b"
      tls "Example.net", "*.example.net", cert: "c", key: "d"
    RUBY
    assert_equal({ tls: true }, evaluate("tls"))
    assert_equal({ tls: true }, evaluate("tls true"))
    { "tls cert: 'a'" => "needs key", "tls 'a b', cert: 'a', key: 'b'" => "names: must be a host name",
      "tls verify: true" => "needs cert and key" }.each do |text, words|
      assert_includes assert_raises(Gyre::Web::ConfigError) { evaluate(text) }.message, "gyre.rb:1: tls: #{words}"
    end
  end

  # --- serving ---

  def test_an_address_with_a_certificate_speaks_tls
    serve(bind: "ssl://127.0.0.1:0?cert=#{@certificate}&key=#{@key}")
    assert_match %r{\Ahttps://127}, @server.urls.first
    assert_equal ["https", "CN=server"], [get, subject]
  end

  def test_a_unix_socket_may_speak_tls
    path = @certificates.path("app.sock")
    serve(bind: "unix://#{path}?cert=#{@certificate}&key=#{@key}")
    socket = OpenSSL::SSL::SSLSocket.new(UNIXSocket.new(path), GyreTest::OpenSSLPeer.client)
    socket.sync_close = true
    assert_equal "https", get(socket.connect)
    socket.close
  end

  def test_certificates_by_host_name
    names = { "one.test" => "one", "*.any.test" => "any" }
    tls = [{ cert: @certificate, key: @key }, *names.map { |name, file| { names: name, **issue(file, alt: "DNS:#{name}") } }]
    serve(bind: "ssl://127.0.0.1:0", tls: tls)
    assert_equal %w[CN=one CN=one CN=any CN=server CN=server CN=server],
                 ["one.test", "ONE.test", "a.any.test", "b.a.any.test", "other.test", nil].map { |name| subject(name) }
  end

  def test_two_certificates_for_the_same_hosts_fail_the_start
    one, other, third = %w[one other third].map { |name| issue(name) }
    { [one, other] => "two certificates are for all other hosts: leave one out",
      [{ names: %w[a.test], **one }, third, { names: %w[b.test a.test], **other }] => "two certificates are for a.test: leave one out" }
      .each do |tls, words|
        error = assert_raises(Gyre::StartError) { serve(bind: "ssl://127.0.0.1:0", tls: tls) }
        assert_includes error.message, words
      end
  end

  def test_tls_is_for_every_tcp_address_unless_one_is_written_so
    tls = { cert: @certificate, key: @key }
    serve(bind: ["tcp://127.0.0.1:0", "unix://#{@certificates.path("app.sock")}"], tls: tls)
    assert_equal %w[https unix], @server.urls.map { |url| url[/\A\w+/] }
    teardown
    setup
    serve(bind: ["tcp://127.0.0.1:0", "ssl://127.0.0.1:0"], tls: tls)
    assert_equal %w[http https], @server.urls.map { |url| url[/\A\w+/] }
  end

  def test_a_start_fails_with_the_files_name
    { "cert=missing.pem&key=#{@key}" => "the certificate missing.pem: No such file",
      "cert=#{@certificate}&key=#{@ca}" => "the key #{@ca} cannot be read",
      "cert=#{@certificate}&key=#{@key}&ca=#{@ca}&crl=#{@ca}" => "the crl #{@ca} cannot be read", "" => "a certificate is missing: write ?cert=",
      "cert=#{@certificate}&key=#{@key}&verify=true" => "to verify clients, ca must name the authorities",
      "cert=#{@certificate}&key=#{@key}&ciphers=NONSENSE" => "the ciphers of TLS 1.2 NONSENSE" }.each do |query, words|
      error = assert_raises(Gyre::StartError) { serve(bind: "ssl://127.0.0.1:0?#{query}") }
      assert_includes error.message, words
    end
  end

  def test_a_key_with_a_passphrase_is_refused
    locked = @certificates.write("locked.key", OpenSSL::PKey.read(File.read(@key)).to_pem(OpenSSL::Cipher.new("aes-256-cbc"), "se cret"))
    error = assert_raises(Gyre::StartError) { serve(bind: "ssl://127.0.0.1:0?cert=#{@certificate}&key=#{locked}") }
    assert_includes error.message, "is encrypted"
  end

  def test_a_certificate_that_is_out_of_date_is_warned_about
    { -60 => /expired.pem ended at .* UTC: clients refuse it/, 3 * 86_400 => /expired.pem ends at/ }.each do |seconds, words|
      serve(bind: "ssl://127.0.0.1:0", tls: issue("expired", to: Time.now + seconds))
      assert_match words, @err.string
      teardown
      setup
    end
  end

  # --- certificates that are read again ---

  def test_new_files_are_for_new_connections_and_bad_ones_change_nothing
    files = issue("first")
    serve(bind: "ssl://127.0.0.1:0?cert=#{files[:cert]}&key=#{files[:key]}")
    kept = connect
    assert_equal "https", get(kept)
    File.write(files[:cert], "rubbish")
    refute @server.reload_tls
    assert_match(/tls: the certificate .*first.pem holds no PEM certificate. The certificates in use stay/, @err.string)
    assert_equal "CN=first", subject
    second = issue("second")
    %i[cert key].each { |name| FileUtils.cp(second[name], files[name]) }
    assert @server.reload_tls
    assert_equal "CN=second", subject
    assert_in_delta Time.now + 86_400, @server.certificate_expires, 60
    assert_equal "https", get(kept)
    kept.close
  end

  def test_no_connection_is_lost_while_certificates_are_read_again
    serve(bind: "ssl://127.0.0.1:0?cert=#{@certificate}&key=#{@key}")
    done = false
    reloads = Thread.new { Enumerator.produce { @server.reload_tls }.take_while { |good| good && !done }.size }
    60.times { assert_equal "https", get }
    done = true
    assert_operator reloads.value, :>, 10
    assert_equal [60, 0], @server.stats.values_at(:handshakes, :handshakes_failed)
  ensure
    done = true
    reloads&.join
  end

  def test_contexts_that_were_replaced_are_given_back
    files = issue("first")
    serve(bind: "ssl://127.0.0.1:0?cert=#{files[:cert]}&key=#{files[:key]}")
    30.times { assert @server.reload_tls && subject }
    GC.start
    kept = ObjectSpace.each_object(Gyre::TLS::Context).count { |context| context.name.include?(files[:cert]) }
    assert_operator kept, :<, 10 # a stack may hold some
  end

  private

  def read(address) = Gyre::Web::Addresses.endpoint(address)

  def evaluate(text) = Gyre::Web::Config.new("gyre.rb").evaluate(text)

  def app = ->(env) { [200, { "content-type" => "text/plain" }, [env["rack.url_scheme"]]] }

  # Returns the settings of a new certificate.
  def issue(name, **options)
    certificate, key = @certificates.issue(name, **options)
    { cert: certificate, key: key }
  end

  def serve(**options)
    log = Gyre::Web::ServerLog.new(notices: @out, errors: @err)
    @server = Gyre::Web::Server.new(app, log: log, **options).start
  end

  def connect(name = nil)
    secure = OpenSSL::SSL::SSLSocket.new(TCPSocket.new("127.0.0.1", @server.endpoints.first.port), GyreTest::OpenSSLPeer.client)
    secure.sync_close = true
    secure.hostname = name if name
    secure.connect
  end

  def subject(name = nil)
    socket = connect(name)
    socket.peer_cert.subject.to_s(OpenSSL::X509::Name::RFC2253)
  ensure
    socket&.close
  end

  def get(socket = (own = connect))
    socket.write("GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
    response = +""
    response << socket.readpartial(1000) until response.end_with?("https")
    response.split("\r\n\r\n").last
  ensure
    own&.close
  end
end
