# frozen_string_literal: true

# What a server's TLS refuses, shows and resumes: old ciphers and versions, revoked certificates,
# identities by name, tickets whose keys several contexts and processes share.

require "test_helper"
require "support/transports"
require "support/openssl_peer"

class TLSServerTest < Minitest::Test
  include GyreTest::Transports

  # Ciphers by their numbers (IANA's TLS Cipher Suites): none of them has both forward secrecy and
  # authenticated encryption, or their key exchange costs the server more than the client.
  OLD_CIPHERS = {
    "NULL_MD5" => 0x0001, "NULL_SHA" => 0x0002, "NULL_SHA256" => 0x003B, "ECDHE_ECDSA_NULL_SHA" => 0xC006, "ECDHE_RSA_NULL_SHA" => 0xC010,
    "DH_anon_RC4_MD5" => 0x0018, "DH_anon_AES_128_CBC_SHA" => 0x0034, "DH_anon_AES_128_GCM_SHA256" => 0x00A6, "ECDH_anon_AES_128_CBC_SHA" => 0xC018,
    "RSA_EXPORT_RC4_40_MD5" => 0x0003, "RSA_EXPORT_RC2_40_MD5" => 0x0006, "RSA_EXPORT_DES40_CBC_SHA" => 0x0008, "RSA_RC4_128_MD5" => 0x0004,
    "RSA_RC4_128_SHA" => 0x0005, "ECDHE_ECDSA_RC4_128_SHA" => 0xC007, "ECDHE_RSA_RC4_128_SHA" => 0xC011, "RSA_IDEA_CBC_SHA" => 0x0007,
    "RSA_DES_CBC_SHA" => 0x0009, "RSA_3DES_EDE_CBC_SHA" => 0x000A, "ECDHE_ECDSA_3DES_EDE_CBC_SHA" => 0xC008,
    "ECDHE_RSA_3DES_EDE_CBC_SHA" => 0xC012, "RSA_AES_128_CBC_SHA" => 0x002F, "RSA_AES_256_CBC_SHA" => 0x0035, "RSA_AES_128_CBC_SHA256" => 0x003C,
    "RSA_AES_128_GCM_SHA256" => 0x009C, "RSA_AES_256_GCM_SHA384" => 0x009D, "RSA_AES_128_CCM" => 0xC09C, "RSA_CAMELLIA_128_CBC_SHA" => 0x0041,
    "RSA_SEED_CBC_SHA" => 0x0096, "DHE_RSA_AES_128_CBC_SHA" => 0x0033, "DHE_RSA_AES_128_GCM_SHA256" => 0x009E,
    "ECDHE_ECDSA_AES_128_CBC_SHA" => 0xC009, "ECDHE_RSA_AES_128_CBC_SHA" => 0xC013, "ECDHE_ECDSA_AES_256_CBC_SHA" => 0xC00A,
    "ECDHE_RSA_AES_256_CBC_SHA" => 0xC014, "ECDHE_ECDSA_AES_128_CBC_SHA256" => 0xC023, "ECDHE_RSA_AES_128_CBC_SHA256" => 0xC027,
    "ECDHE_RSA_CAMELLIA_128_CBC_SHA256" => 0xC076, "PSK_AES_128_CBC_SHA" => 0x008C, "PSK_AES_128_GCM_SHA256" => 0x00A8,
    "SRP_SHA_AES_128_CBC_SHA" => 0xC01D, "KRB5_DES_CBC_SHA" => 0x001E
  }.freeze
  NEW_CIPHERS = { "prime256v1" => [0xC02B, 0xC02C, 0xCCA9], "rsa" => [0xC02F, 0xC030, 0xCCA8] }.freeze
  OLD_VERSIONS = { "SSL 3.0" => 0x0300, "TLS 1.0" => 0x0301, "TLS 1.1" => 0x0302 }.freeze
  ALERT = 21
  HANDSHAKE = 22
  private_constant :OLD_CIPHERS, :NEW_CIPHERS, :OLD_VERSIONS, :ALERT, :HANDSHAKE

  def setup
    @certificate, @key = GyreTest::Transports.identity("server")
    @ca = certificates.authority
  end

  def secure? = true

  # --- what is refused ---

  def test_old_ciphers_are_refused_whatever_the_certificates_key_is
    NEW_CIPHERS.each do |kind, ciphers|
      certificate, key = certificates.issue("server-#{kind}", key: kind == "rsa" ? OpenSSL::PKey::RSA.new(2048) : nil)
      context = server_context(cert: certificate, key: key)
      ciphers.each { |cipher| assert_equal [HANDSHAKE, 2], answer(context, client_hello(0x0303, [cipher])), "%04x with #{kind}" % cipher }
      OLD_CIPHERS.each do |name, cipher|
        assert_equal [ALERT, 40], answer(context, client_hello(0x0303, [cipher])), "#{name} with #{kind}: handshake_failure"
      end
      assert_equal [ALERT, 40], answer(context, client_hello(0x0303, OLD_CIPHERS.values)), "all of them with #{kind}"
    end
  end

  def test_old_versions_are_refused
    OLD_VERSIONS.each do |name, version|
      type, description = answer(server_context, client_hello(version, NEW_CIPHERS.values.flatten))
      assert_equal [ALERT, true], [type, [40, 70].include?(description)], "#{name}: handshake_failure or protocol_version"
    end
    assert_equal [HANDSHAKE, 2], answer(server_context, client_hello(0x0303, NEW_CIPHERS.values.flatten))
    assert_equal [ALERT, 70], answer(server_context(min_version: "1.3"), client_hello(0x0303, NEW_CIPHERS.values.flatten))
  end

  def test_ciphers_may_be_chosen
    context = server_context(ciphers: "ECDHE-ECDSA-AES256-GCM-SHA384", ciphersuites: "TLS_CHACHA20_POLY1305_SHA256")
    assert_equal [[HANDSHAKE, 2], [ALERT, 40]], [0xC02C, 0xC02B].map { |cipher| answer(context, client_hello(0x0303, [cipher])) }
    assert_equal "TLS_CHACHA20_POLY1305_SHA256", transport_pair(contexts: [client_context, context]).first.tls_cipher
    { ciphers: "RC4-NONE", ciphersuites: "TLS_NONE" }.each do |name, value|
      error = assert_raises(ArgumentError) { server_context(name => value) }
      assert_match(/\Atls: the ciphers of TLS 1\.[23] #{value}: libssl has none of them here/, error.message)
    end
    assert_match(/min_version must be 1.2 or 1.3/, assert_raises(ArgumentError) { server_context(min_version: "1.1") }.message)
  end

  def test_certificates_of_clients_that_were_revoked_are_refused
    good, bad = %w[client revoked].map { |name| certificates.issue(name) }
    list = certificates.write("list.pem", revocations(bad[0]))
    context = server_context(ca: @ca, crl: list)
    _, server = pair(client_context(cert: good[0], key: good[1]), context)
    assert_equal "CN=client", server.peer_subject
    error = assert_raises(Gyre::TLS::Error) { pair(client_context(cert: bad[0], key: bad[1]), context) }
    assert_match(/certificate revoked/, error.message)
  end

  def test_certificates_of_an_authority_without_a_revocation_list_are_refused
    other = certificates.authority("others")
    both = certificates.write("both.pem", File.read(@ca) + File.read(other))
    certificate, key = certificates.issue("listless", by: "others")
    context = server_context(ca: both, crl: revocations(@certificate))
    error = assert_raises(Gyre::TLS::Error) { pair(client_context(cert: certificate, key: key), context) }
    assert_match(/unable to get certificate CRL|certificate verify failed/, error.message)
  end

  def test_a_file_without_revocation_lists_is_refused
    whole = revocations(@certificate)
    cut = certificates.write("cut.pem", whole + whole[0, 100])
    { @ca => "cannot be read", cut => "cannot be read", "/nowhere.pem" => "No such file" }.each do |path, words|
      error = assert_raises(ArgumentError) { server_context(ca: @ca, crl: path) }
      assert_match(/\Atls: the crl #{path}:? #{words}/, error.message)
    end
    error = assert_raises(ArgumentError) { server_context(crl: whole) }
    assert_equal "tls: crl is for certificates of clients, and verify is false", error.message
  end

  def test_a_session_is_not_resumed_under_another_revocation_list
    certificate, key = certificates.issue("client")
    keys = Gyre::TLS::TicketKeys.new
    before, after = [@certificate, certificate].map { |revoked| server_context(ca: @ca, crl: revocations(revoked), ticket_keys: keys) }
    client = client_context(cert: certificate, key: key)
    refute resumes?(client, before)
    assert resumes?(client, before)
    assert_raises(Gyre::TLS::Error) { pair(client, after) }
  end

  # --- identities by name ---

  def test_clients_are_verified_alike_under_each_name
    other = server_context_of("other")
    strict = server_context(names: { "other.test" => other }, ca: @ca)
    certificate, key = GyreTest::Transports.identity("client")
    client = client_context(verify: false, cert: certificate, key: key)
    ["other.test", "else.test"].each do |name|
      _, server = pair(client, strict, name)
      assert_equal "CN=client", server.peer_subject
      assert_raises(Gyre::TLS::Error) { pair(client_context(verify: false), strict, name) }
    end
  end

  def test_an_identity_of_another_kind_of_key_is_the_only_one_shown
    certificate, key = certificates.issue("rsa", key: OpenSSL::PKey::RSA.new(2048))
    context = server_context(names: { "localhost" => server_context(cert: certificate, key: key) })
    client, = pair(client_context(verify: false), context, "localhost")
    assert_equal "CN=rsa", client.peer_subject
    client, = pair(client_context(verify: false), context, "else.test")
    assert_equal "CN=server", client.peer_subject
  end

  # --- tickets ---

  def test_contexts_with_the_same_keys_resume_each_others_sessions
    keys = Gyre::TLS::TicketKeys.new
    loaded = Gyre::TLS::TicketKeys.load(keys.save)
    contexts = [keys, loaded, keys].map { |each| server_context(ticket_keys: each) }
    client = client_context(ca: @ca)
    assert_equal [false, true, true, true], [*contexts, contexts[0]].map { |context| resumes?(client, context) }
    refute resumes?(client, server_context)
  end

  def test_rotated_keys_decrypt_for_two_rotations
    keys = Gyre::TLS::TicketKeys.new
    context = server_context(ticket_keys: keys)
    (0..3).each do |rotations|
      client = client_context(ca: @ca)
      refute resumes?(client, context)
      later = server_context(ticket_keys: aged(keys, rotations))
      assert_equal rotations < 3, resumes?(client, later), "#{rotations} rotations"
      assert resumes?(client, later), "by the new key"
    end
  end

  def test_keys_change_with_time_and_alike_in_each_process
    keys = Gyre::TLS::TicketKeys.new(interval_s: 1)
    first, before = keys.save.unpack("q2a*").last(2)
    eventually { keys.save.unpack("q2a*")[1] > first }
    refute_equal before, keys.save.unpack("q2a*")[2]
  end

  def test_an_invalid_state_of_keys_is_refused
    numbers = [[1, 1 << 62], [1, -(1 << 62)]].map { |each| each.pack("q2") + ("a" * 32) }
    ["", "a" * 47, "\0" * 48, *numbers].each { |text| assert_raises(ArgumentError) { Gyre::TLS::TicketKeys.load(text) } }
    [0, -1, 1.5].each { |seconds| assert_raises(ArgumentError) { Gyre::TLS::TicketKeys.new(interval_s: seconds) } }
  end

  # Else a client without a certificate could resume its session where one is needed.
  def test_a_session_is_resumed_only_where_the_same_clients_are_let_in
    keys = Gyre::TLS::TicketKeys.new
    open, strict, other = [{}, { ca: @ca }, { ca: certificates.authority("stranger") }].map { |options| server_context(ticket_keys: keys, **options) }
    certificate, key = GyreTest::Transports.identity("client")
    client = client_context(ca: @ca)
    refute resumes?(client, open)
    assert_raises(Gyre::TLS::Error) { resumes?(client, strict) }
    known = client_context(ca: @ca, cert: certificate, key: key)
    assert_equal [false, true], [resumes?(known, strict), resumes?(known, strict)]
    assert_raises(Gyre::TLS::Error) { resumes?(known, other) }
    identity = certificates.issue("another")
    refute resumes?(known, server_context(ca: @ca, ticket_keys: keys, cert: identity[0], key: identity[1]))
  end

  def test_a_session_is_resumed_only_under_the_certificate_that_it_was_made_with
    names = { "a.example.org" => server_context_of("a"), "b.example.org" => server_context_of("b") }
    context = server_context(names: names)
    { "TLSv1_3" => OpenSSL::SSL::TLS1_3_VERSION, "TLSv1_2" => OpenSSL::SSL::TLS1_2_VERSION }.each do |words, version|
      client = GyreTest::OpenSSLPeer.client do |made|
        made.min_version = made.max_version = version
        made.session_cache_mode = OpenSSL::SSL::SSLContext::SESSION_CACHE_CLIENT
        made.session_new_cb = ->((_, session)) { @session = session }
      end
      _, first = resumed_as(client, context, "a.example.org", nil)
      session = @session
      results = %w[a.example.org b.example.org elsewhere.example.org].map { |name| resumed_as(client, context, name, session) }
      assert_equal [[true, "/CN=a"], [false, "/CN=b"], [false, "/CN=server"]], results, words
      assert_equal "/CN=a", first
    end
  end

  def test_another_versions_keys_are_left_alone
    program = <<~RUBY
      keys = Gyre::TLS::TicketKeys
      [nil, "", ["other"].pack("m0")].each { |text| keys.adopt(text) }
      own, other = keys.export, [keys.new.save].pack("m0")
      keys.adopt(other)
      abort unless keys.export == other && own != other
    RUBY
    assert system(*ruby_command("-rgyre/net", "-e", program))
  end

  def test_processes_that_share_keys_resume_each_others_sessions
    client = client_context(ca: @ca)
    with_servers(2) do |ports|
      resumed = Array.new(200) do |index|
        transport = Gyre.connect("tcp://127.0.0.1:#{ports[index % 2]}")
        transport = keep(Gyre::Transport.new(transport.to_io, "the workers"))
        transport.start_tls(client, name: "localhost", timeout_s: 30)
        transport.read_partial # the ticket comes before
        transport.tls_resumed?.tap { transport.close }
      end
      assert_equal 199, resumed.count(true)
    end
  end

  private

  SERVER = <<~'RUBY'
    certificate, key = ARGV
    context = Gyre::TLS.server(cert: certificate, key: key, ticket_keys: Gyre::TLS::TicketKeys.load($stdin.read))
    server = Gyre.listen("tcp://127.0.0.1:0", tls: context)
    $stdout.sync = true
    puts server.port
    server.each { |transport| transport.write("x") }
  RUBY
  private_constant :SERVER

  # Two processes with the same keys.
  def with_servers(count, keys = Gyre::TLS::TicketKeys.new, ports = [], &block)
    return block.call(ports) if count.zero?

    reader, writer = IO.pipe
    writer.binmode.write(keys.save)
    writer.close
    with_subprocess(*ruby_command("-rgyre/net", "-e", SERVER, @certificate, @key), in: reader) do |_pid, out, err|
      port = out.gets or flunk err.read
      with_servers(count - 1, keys, ports << Integer(port), &block)
    end
  ensure
    reader&.close
  end

  def server_context(cert: @certificate, key: @key, **options) = Gyre::TLS.server(cert: cert, key: key, **options)
  def client_context(verify: false, ca: nil, **options) = Gyre::TLS.client(ca: ca, verify: ca ? true : verify, **options)

  def server_context_of(subject)
    certificate, key = certificates.issue(subject)
    server_context(cert: certificate, key: key)
  end

  # Connected, after the handshake.
  def pair(client_context, server_context, name = "localhost")
    client, server = UNIXSocket.pair.zip(%w[server client]).map { |socket, peer| keep(Gyre::Transport.new(socket, peer)) }
    client.begin_tls(client_context, name: name)
    server.begin_tls(server_context)
    [client, server].each(&:handshake_available) until [client, server].all? { |transport| transport.handshake_available == true }
    [client, server]
  end

  # The keys of a process whose clock is ahead.
  def aged(keys, intervals)
    interval_s, oldest, state = keys.save.unpack("q2a*")
    Gyre::TLS::TicketKeys.load([interval_s, oldest - intervals, state].pack("q2a*"))
  end

  # Connects, and takes the ticket.
  def resumes?(client_context, server_context)
    client, server = pair(client_context, server_context)
    server.write("x")
    assert_equal "x", client.read_available
    client.tls_resumed?
  end

  # Returns whether the session was resumed, and the certificate's subject.
  def resumed_as(client, context, name, session)
    near, far = UNIXSocket.pair
    server = keep(Gyre::Transport.new(far, "openssl")).begin_tls(context)
    socket = OpenSSL::SSL::SSLSocket.new(near, client)
    socket.hostname = name
    socket.session = session if session
    server.handshake_available until socket.connect_nonblock(exception: false) == socket
    server.write("x")
    socket.readpartial(1)
    [socket.session_reused?, socket.peer_cert.subject.to_s]
  ensure
    near&.close
  end

  # A ClientHello of TLS 1.2 or older.
  def client_hello(version, ciphers)
    groups = [0x001D, 0x0017].pack("n*")
    signatures = [0x0403, 0x0401, 0x0804, 0x0203, 0x0201].pack("n*")
    extensions = [[10, [groups.bytesize].pack("n") + groups], [11, "\x01\x00"], [13, [signatures.bytesize].pack("n") + signatures]]
                 .map { |type, data| [type, data.bytesize].pack("n2") + data.b }.join
    body = [version].pack("n") + Random.bytes(32) + "\0".b + [ciphers.size * 2].pack("n") + ciphers.pack("n*") + "\x01\x00".b +
           [extensions.bytesize].pack("n") + extensions
    message = "\x01".b + [body.bytesize].pack("N")[1..] + body
    [HANDSHAKE, [version, 0x0301].min, message.bytesize].pack("Cnn") + message
  end

  # Returns what the server says first: a record's type, and an alert's description or a handshake
  # message's type.
  def answer(context, hello)
    near, far = UNIXSocket.pair
    server = keep(Gyre::Transport.new(far, "client"))
    server.begin_tls(context)
    near.write(hello)
    begin
      server.handshake_available
    rescue Gyre::TLS::Error
      nil # the alert tells
    end
    type, _, _, *rest = near.read_nonblock(16_384).unpack("CnnC*")
    [type, type == ALERT ? rest[1] : rest[0]]
  ensure
    near&.close
  end

  def revocations(certificate) = certificates.revocations(certificate)
end
