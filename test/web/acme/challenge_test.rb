# frozen_string_literal: true

# Answers to ACME's tls-alpn-01 (RFC 8737), to all processes with the folder: for whom they are, and
# that other clients see nothing of them.

require "test_helper"
require "stringio"
require "support/certificates"
require "support/openssl_peer"
require "gyre/web"
require "gyre/web/acme/store"

class WebACMEChallengeTest < Minitest::Test
  NAME = "shop.example.org"
  ACME = "acme-tls/1"
  SSL = OpenSSL::SSL
  SHARE = OpenSSL::PKey.generate_key("X25519").public_to_der[-32..]

  def setup
    @folder = Dir.mktmpdir("gyre")
    log = Gyre::Web::ServerLog.new(notices: StringIO.new, errors: StringIO.new)
    @store = Gyre::Web::ACME::Store.new([NAME], @folder, "https://a.test/dir").tap { |store| store.prepare(log) }
    app = ->(_) { [200, {}, ["app"]] }
    certificates = GyreTest::Certificates.new(@folder)
    @identity = certificates.issue("client")
    # Clients must show a certificate, which an ACME authority does not have.
    tls = @store.certificates.map { |each| each.merge(ca: certificates.authority) }
    @server = Gyre::Web::Server.new(app, bind: "ssl://127.0.0.1:0", tls: tls, acme: @store, log: log).start
  end

  def teardown
    @server.stop(now: true)
    @server.wait
    FileUtils.rm_rf(@folder)
    super
  end

  def test_an_authority_sees_the_challenges_certificate_while_it_is_there_and_gets_no_data
    [SSL::TLS1_2_VERSION, SSL::TLS1_3_VERSION].each do |version|
      assert_raises(SSL::SSLError) { connect([ACME], version: version) { flunk } }
      @store.challenge(NAME, "proof", true)
      connect([ACME], version: version) do |socket|
        assert_equal [ACME, [NAME]], [socket.alpn_protocol, names(socket.peer_cert)]
        extension = socket.peer_cert.extensions.find { |each| each.oid == "1.3.6.1.5.5.7.1.31" }
        assert_predicate extension, :critical?
        assert_equal Digest::SHA256.digest("proof"), OpenSSL::ASN1.decode(extension.value_der).value
        assert_empty answer(socket)
      end
      @store.challenge(NAME, "proof", false)
      assert_raises(SSL::SSLError) { connect([ACME], version: version) { flunk } }
    end
  end

  def test_other_clients_and_other_names_see_nothing_of_a_challenge
    sessions = []
    connect(["http/1.1"], client: true, sessions: sessions) { |socket| assert_match(/app\z/, answer(socket)) }
    @store.challenge(NAME, "proof", true)
    [["http/1.1"], [ACME, "http/1.1"], []].each do |protocols|
      connect(protocols, client: true, session: sessions.shift) do |socket|
        assert_includes names(socket.peer_cert), "localhost"
        assert_match(/app\z/, answer(socket))
        assert_equal protocols == ["http/1.1"], socket.session_reused?
      end
    end
    ["other.example.org", "../#{NAME}", File.join(@store.folder, NAME), "x" * 255].each do |name|
      assert_raises(SSL::SSLError, name) { connect([ACME], name: name) { flunk } }
    end
    assert_raises(SSL::SSLError) { connect([ACME, "http/1.1"]) { |socket| refute_match(/app/, answer(socket)) && raise(SSL::SSLError) } }
  end

  def test_a_broken_challenge_is_answered_by_an_alert
    ["", "rubbish", File.read(@store.path(NAME))[0, 900], Gyre::Web::ACME::Challenge.pem(NAME, "p").sub(/-+BEGIN EC.*/m, "")].each do |text|
      @store.write("#{NAME}.challenge", text)
      assert_raises(SSL::SSLError) { connect([ACME]) { flunk } }
    end
    connect(["http/1.1"], client: true) { |socket| assert_match(/app\z/, answer(socket)) }
  end

  # Else it would need no certificate.
  def test_a_client_that_begins_as_an_authority_ends_as_one
    @store.challenge(NAME, "proof", true)
    assert_equal [22, 21], [[ACME], ["http/1.1"]].then { |first, second| retried(first, second) }
    assert_equal [22, 22], retried([ACME], [ACME])
    assert_equal [22, 22], retried(["http/1.1"], [ACME])
    assert_equal [22, 22], retried(["http/1.1"], ["http/1.1"])
  end

  private

  def connect(protocols, name: NAME, version: nil, client: false, session: nil, sessions: [])
    certificate, key = @identity if client
    context = GyreTest::OpenSSLPeer.client(cert: certificate, key: key) do |made|
      made.alpn_protocols = protocols unless protocols.empty?
      made.min_version = made.max_version = version if version
      made.session_cache_mode = SSL::SSLContext::SESSION_CACHE_CLIENT
      made.session_new_cb = ->((_, given)) { sessions << given }
    end
    socket = SSL::SSLSocket.new(TCPSocket.new("127.0.0.1", port), context)
    socket.sync_close = true
    socket.hostname = name
    socket.session = session if session
    socket.connect
    yield socket
  ensure
    socket&.close
  end

  def port = @server.endpoints.first.port

  def names(certificate)
    certificate.extensions.find { |each| each.oid == "subjectAltName" }.value.scan(/DNS:([^, ]+)/).flatten
  end

  def answer(socket)
    socket.write("GET / HTTP/1.1\r\nhost: #{NAME}\r\nconnection: close\r\n\r\n")
    socket.read
  rescue Errno::ECONNRESET, Errno::EPIPE
    ""
  end

  # Returns the kinds of the records that follow two hellos (22: a hello; 21: an alert); the first
  # one has no key, so the server asks for another (RFC 8446, section 4.1.4).
  def retried(*protocols)
    socket = TCPSocket.new("127.0.0.1", port)
    kinds = protocols.zip(["", [29, 32].pack("nn") + SHARE]).map do |names, share|
      socket.write(hello(names, share))
      record(socket).tap { record(socket) if share.empty? } # and a change of ciphers
    end
    kinds
  ensure
    socket&.close
  end

  def record(socket)
    kind, _, _, length = socket.read(5).unpack("CCCn")
    socket.read(length)
    kind
  end

  def hello(protocols, share)
    host = [NAME.bytesize + 3, 0, NAME.bytesize].pack("nCn") + NAME
    list = protocols.map { |name| [name.bytesize].pack("C") + name }.join
    extensions = { 0 => host, 43 => [2, 3, 4].pack("CCC"), 13 => [4, 0x0403, 0x0804].pack("nnn"), 10 => [2, 29].pack("nn"),
                   51 => [share.bytesize].pack("n") + share, 16 => [list.bytesize].pack("n") + list }
    extensions = extensions.map { |id, body| [id, body.bytesize].pack("nn") + body }.join
    body = [3, 3].pack("CC") + ("r" * 32) + [32].pack("C") + ("s" * 32) + [2, 0x1301, 1, 0, extensions.bytesize].pack("nnCCn") + extensions
    [22, 3, 1, body.bytesize + 4, 1, 0, body.bytesize].pack("CCCnCCn") + body
  end
end
