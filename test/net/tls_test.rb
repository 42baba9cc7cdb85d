# frozen_string_literal: true

# TLS of transports: settings, which peers each side accepts, what is agreed on, endings. The other
# side is ours, or Ruby's openssl where a second implementation has to agree.

require "test_helper"
require "support/transports"
require "support/openssl_peer"

class TLSTest < Minitest::Test
  include GyreTest::Transports

  def setup
    @certificate, @key = GyreTest::Transports.identity("server")
    @ca = certificates.authority
  end

  def secure? = true

  # --- what a client accepts ---

  def test_a_client_that_trusts_the_authority_gets_through
    client, server = connect(client_context(ca: @ca), server_context)
    client.write("hello")
    assert_equal "hello", server.read_available
    assert_equal ["TLSv1.3", true, nil], [client.tls_version, client.tls?, client.alpn]
    assert_match(/AES|CHACHA/, client.tls_cipher)
    assert_equal File.read(@certificate), OpenSSL::X509::Certificate.new(client.peer_certificate_der).to_pem
    assert_equal "CN=server", client.peer_subject
    assert_nil server.peer_subject
  end

  def test_a_certificate_of_another_authority_is_refused
    [client_context(ca: certificates.authority("stranger")), client_context].each do |context|
      assert_equal "TLS handshake with server: certificate verify failed: unable to get local issuer certificate", refusal(context, server_context)
    end
  end

  def test_a_self_signed_certificate_is_refused
    certificate = certificates.authority("stranger")
    key = certificates.key("stranger")
    assert_match(/TLS handshake with server: certificate verify failed: self.signed certificate/,
                 refusal(client_context(ca: @ca), server_context(cert: certificate, key: key)))
  end

  def test_an_expired_certificate_is_refused
    certificate, key = certificates.issue("expired", to: Time.now - 3600)
    assert_match(/with server: certificate verify failed: certificate has expired/,
                 refusal(client_context(ca: @ca), server_context(cert: certificate, key: key)))
  end

  def test_the_name_in_the_certificate_counts
    { "elsewhere.invalid" => /hostname mismatch/i, "127.0.0.2" => /IP address mismatch/i }.each do |name, reason|
      message = refusal(client_context(ca: @ca), server_context, name: name)
      assert_match(/\ATLS handshake with server: certificate verify failed: #{reason}/, message)
    end
    assert connect(client_context(ca: @ca), server_context, name: "127.0.0.1")
    assert connect(client_context(verify: false), server_context, name: "elsewhere.invalid")
  end

  def test_a_client_that_verifies_needs_a_name
    [nil, "", "."].each do |name|
      error = assert_raises(ArgumentError) { begin_pair(client_context(ca: @ca), server_context, name: name) }
      assert_equal "tls: a client that verifies server needs the name that is in its certificate: name:", error.message
      assert connect(client_context(verify: false), server_context, name: name)
    end
  end

  def test_a_connection_to_a_path_has_no_name_to_verify
    Dir.mktmpdir do |folder|
      server = Gyre.listen("unix://#{folder}/socket", tls: server_context)
      assert_raises(ArgumentError) { Gyre.connect("unix://#{folder}/socket", tls: client_context(ca: @ca)) }
    ensure
      server&.close
    end
  end

  def test_a_name_may_be_absolute_and_has_255_bytes_at_most
    assert connect(client_context(ca: @ca), server_context, name: "localhost.")
    assert begin_pair(client_context(verify: false), server_context, name: "a" * 255)
    error = assert_raises(ArgumentError) { begin_pair(client_context(verify: false), server_context, name: "a" * 256) }
    assert_equal "tls: the name of a host has 255 bytes at most, not 256", error.message
  end

  def test_a_failure_is_called_what_it_is_whatever_the_certificate_was_worth
    strict = server_context(ca: @ca)
    assert_match(/ from server: .*alert certificate required\z/, refusal(client_context(verify: false), strict, of: 0))
  end

  def test_a_server_that_was_refused_gets_the_alert
    client, server = begin_pair(client_context(ca: certificates.authority("stranger")), server_context)
    assert_raises(Gyre::TLS::Error) { shake([client, server]) }
    error = assert_raises(Gyre::TLS::Error) { 3.times { server.handshake_available } }
    assert_match(/TLS handshake with client: .*alert unknown ca/, error.message)
  end

  def test_the_certificates_between_are_sent_along
    chain = certificates.write("chain.pem", File.read(@certificate) + File.read(@ca))
    assert connect(client_context(ca: @ca), server_context(cert: chain))
  end

  def test_the_authorities_may_be_a_folder
    assert connect(client_context(ca: hashed_folder), server_context)
  end

  # --- what a server accepts ---

  def test_a_server_with_authorities_requires_a_certificate_of_theirs
    strict = server_context(ca: @ca)
    certificate, key = GyreTest::Transports.identity("client")
    _, server = connect(client_context(ca: @ca, cert: certificate, key: key), strict)
    assert_equal "CN=client", server.peer_subject
    assert_match(/with client: peer did not return a certificate/, refusal(client_context(ca: @ca), strict))
    certificate, key = certificates.issue("other", by: "stranger")
    assert_match(/with client: certificate verify failed/, refusal(client_context(ca: @ca, cert: certificate, key: key), strict))
  end

  def test_a_server_may_take_clients_without_a_certificate_as_well
    lenient = server_context(ca: @ca, verify: :optional)
    assert connect(client_context(ca: @ca), lenient)
    certificate, key = certificates.issue("other", by: "stranger")
    assert_match(/with client: certificate verify failed/, refusal(client_context(ca: @ca, cert: certificate, key: key), lenient))
  end

  def test_a_certificate_may_be_given_as_text
    assert connect(client_context(ca: @ca), server_context(cert: File.read(@certificate), key: File.read(@key)))
  end

  # --- what is agreed on ---

  # Each read finds another certificate, as beside a program that replaces the file.
  def test_certificate_and_key_in_one_file_are_read_together
    contents = %w[one other].map { |name| certificates.issue(name).map { |file| File.read(file) }.join }
    File.stub(:binread, ->(_) { contents.shift }) { assert Gyre::TLS.server(cert: "both.pem", key: "both.pem") }
  end

  def test_the_servers_preferred_protocol_is_taken
    context = server_context(alpn: %w[h2 http/1.1])
    { %w[http/1.1 h2] => "h2", %w[spdy http/1.1] => "http/1.1", [] => nil }.each do |offered, taken|
      pair = connect(client_context(ca: @ca, alpn: offered), context)
      assert_equal [taken, taken], pair.map(&:alpn)
    end
    assert_match(/with client: .*no application protocol|no suitable/i, refusal(client_context(ca: @ca, alpn: ["spdy"]), context, of: 1))
    assert_raises(ArgumentError) { client_context(alpn: [""]) }
  end

  def test_the_name_that_a_client_asks_for_chooses_the_identity
    names = { "a.example.org" => "one", "*.example.org" => "any", "b.example.org" => "two" }
    contexts = names.transform_values { |subject| server_context_of(subject, "DNS:*.example.org") }
    context = server_context(names: contexts)
    { "a.example.org" => "one", "B.EXAMPLE.org" => "two", "c.example.org" => "any" }.each do |name, subject|
      client, = connect(client_context(ca: @ca), context, name: name)
      assert_equal "CN=#{subject}", client.peer_subject
    end
    client, = connect(client_context(verify: false), context, name: "d.c.example.org")
    assert_equal "CN=server", client.peer_subject
    client, = connect(client_context(verify: false), context, name: nil)
    assert_equal "CN=server", client.peer_subject
  end

  def test_versions_before_tls_1_2_are_refused
    old = GyreTest::OpenSSLPeer.client do |context|
      context.min_version = OpenSSL::SSL::TLS1_VERSION
      context.max_version = OpenSSL::SSL::TLS1_1_VERSION
      context.ciphers = "DEFAULT:@SECLEVEL=0"
    end
    with_openssl_client(old) do |transport, socket|
      assert_equal :wait_readable, socket.connect_nonblock(exception: false)
      error = assert_raises(Gyre::TLS::Error) { transport.handshake_available }
      assert_equal "TLS handshake with openssl: unsupported protocol", error.message
      assert_raises(OpenSSL::SSL::SSLError) { socket.connect_nonblock(exception: false) }
    end
  end

  def test_the_systems_newest_version_is_spoken
    settings = certificates.write("newest.cnf", <<~TEXT)
      openssl_conf = all
      [all]
      ssl_conf = libssl
      [libssl]
      system_default = limits
      [limits]
      MaxProtocol = TLSv1.2
    TEXT
    output = ruby("-rgyre/net", "-e", <<~RUBY, @certificate, @key, env: { "OPENSSL_CONF" => settings })
      client, server = UNIXSocket.pair.map { |socket| Gyre::Transport.new(socket, "peer") }
      Thread.new { server.start_tls(Gyre::TLS.server(cert: ARGV[0], key: ARGV[1])) }
      puts client.start_tls(Gyre::TLS.client(verify: false)).tls_version
    RUBY
    assert_equal "TLSv1.2\n", output.out, output.err
  end

  def test_renegotiation_is_refused
    openssl = need_program("openssl")
    listener = TCPServer.new("127.0.0.1", 0)
    commands, input = IO.pipe
    with_openssl = [openssl, "s_client", "-tls1_2", "-connect", "127.0.0.1:#{listener.local_address.ip_port}"]
    pid = Process.spawn(*with_openssl, in: commands, out: File::NULL, err: File::NULL)
    server = keep(Gyre::Transport.new(listener.accept, "s_client"))
    server.start_tls(server_context(), timeout_s: 10)
    input.write("R\n")
    server.read_timeout_s = 10
    ending = begin
      server.read_partial || :ended
    rescue Gyre::TLS::Error
      :refused
    end
    assert_includes %i[ended refused], ending
    assert_equal "TLSv1.2", server.tls_version
  ensure
    [listener, commands, input].each(&:close)
    server&.abandon
    Process.kill(:KILL, pid)
    Process.wait(pid)
  end

  # --- sessions ---

  def test_both_sides_resume_a_session
    contexts = [client_context(ca: @ca), server_context]
    first = connect(*contexts)
    refute first.any?(&:tls_resumed?)
    exchange(*first)
    3.times do
      again = connect(*contexts)
      assert again.all?(&:tls_resumed?)
      exchange(*again)
      again.each(&:abandon) # an end that is not in order costs no session
    end
    refute connect(*contexts, name: "127.0.0.1").any?(&:tls_resumed?), "a session is of its name"
  end

  def test_two_servers_of_one_name_each_keep_their_session
    client = client_context(ca: @ca)
    servers = { "tcp://localhost:1" => server_context, "tcp://localhost:2" => server_context }
    resumed = Array.new(2) do
      servers.map do |address, context|
        near, far = UNIXSocket.pair.zip([address, "client"]).map { |socket, peer| keep(Gyre::Transport.new(socket, peer)) }
        near.begin_tls(client, name: "localhost")
        far.begin_tls(context)
        [near, far].each(&:handshake_available) until [near, far].all? { |transport| transport.handshake_available == true }
        exchange(near, far)
        near.tls_resumed?
      end
    end
    assert_equal [[false, false], [true, true]], resumed
  end

  def test_a_session_of_a_verified_client_is_resumed_as_well
    certificate, key = GyreTest::Transports.identity("client")
    contexts = [client_context(ca: @ca, cert: certificate, key: key), server_context(ca: @ca)]
    exchange(*connect(*contexts))
    pair = connect(*contexts)
    assert pair.all?(&:tls_resumed?)
    assert_equal "CN=client", pair[1].peer_subject
  end

  def test_tls_1_2_is_spoken_and_resumed
    contexts = [client_context(ca: @ca), GyreTest::OpenSSLPeer.server(cert: @certificate, key: @key) do |context|
      context.max_version = OpenSSL::SSL::TLS1_2_VERSION
    end]
    resumed = Array.new(2) do
      with_openssl_server(contexts[1]) do |transport, socket|
        transport.begin_tls(contexts[0], name: "localhost")
        shake_openssl(transport) { socket.accept_nonblock(exception: false) == socket }
        assert_equal "TLSv1.2", transport.tls_version
        transport.write("hello")
        assert_equal "hello", socket.readpartial(100)
        transport.tls_resumed?
      end
    end
    assert_equal [false, true], resumed
  end

  def test_a_client_keeps_the_sessions_of_its_last_servers
    contexts = [client_context(verify: false), server_context]
    65.times { |index| exchange(*connect(*contexts, name: "host#{index}")) }
    refute connect(*contexts, name: "host0").first.tls_resumed?
    assert connect(*contexts, name: "host1").first.tls_resumed?
    assert connect(*contexts, name: "host64").first.tls_resumed?
  end

  # --- endings ---

  def test_an_end_in_order_is_an_end_for_both
    client, server = connect(client_context(ca: @ca), server_context)
    client.write("last")
    client.close_write
    assert_equal ["last", nil, nil], Array.new(3) { server.read_available }
    server.write("heard")
    server.close
    assert_equal ["heard", nil], Array.new(2) { client.read_available }
  end

  def test_a_cut_is_not_an_end
    client, server = connect(client_context(ca: @ca), server_context)
    exchange(client, server) # a socket that is closed with unread bytes is reset
    client.write("first")
    client.abandon
    assert_equal "first", server.read_available
    2.times do
      error = assert_raises(Gyre::TLS::Truncated) { server.read_available }
      assert_equal "receive from client: the peer ended the connection without a close_notify alert", error.message
    end
  end

  def test_the_beginning_of_a_record_is_nothing_to_be_read
    client, server = connect(client_context(ca: @ca), server_context)
    exchange(client, server)
    server.to_io.write("\x17\x03\x03\x01")
    assert_equal :wait_readable, client.read_available
    refute_predicate client, :pending?
  end

  # Both come with one call of recv: the failure must not look like an end in order.
  def test_a_failure_after_bytes_comes_with_the_next_read
    with_openssl_client(OpenSSL::SSL::SSLContext.new) do |transport, client|
      shake_openssl(transport) { client.connect_nonblock(exception: false) == client }
      client.write("half of it")
      transport.to_io.write_nonblock("\x17\x03\x03\x00\x20#{"x" * 32}") # is no record: the peer refuses it
      assert_raises(OpenSSL::SSL::SSLError) { nil while client.read_nonblock(100) }
      assert_equal "half of it", transport.read_available
      assert_predicate transport, :pending?
      2.times { assert_match(/bad record mac/, assert_raises(Gyre::TLS::Error) { transport.read_available }.message) }
    end
  end

  def test_openssl_gets_the_end
    with_openssl_client(GyreTest::OpenSSLPeer.client(ca: @ca)) do |transport, socket|
      shake_openssl(transport) { socket.connect_nonblock(exception: false) == socket }
      transport.write("bye")
      transport.close
      assert_equal "bye", socket.read # which raises for a cut
    end
  end

  def test_bytes_other_than_tls_are_refused
    plain, server = UNIXSocket.pair.zip(%w[server client]).map { |socket, peer| keep(Gyre::Transport.new(socket, peer)) }
    server.begin_tls(server_context())
    plain.write("GET / HTTP/1.1\r\n\r\n")
    error = assert_raises(Gyre::TLS::Error) { server.handshake_available }
    assert_match(/TLS handshake with client: (http request|wrong version number|packet length too long)/, error.message)
  end

  def test_a_peer_that_ends_in_the_handshake_is_named
    left, right = UNIXSocket.pair
    server = keep(Gyre::Transport.new(right, "client"))
    server.begin_tls(server_context())
    left.close
    error = assert_raises(Gyre::TLS::Truncated) { server.handshake_available }
    assert_match(/TLS handshake with client: the peer ended/, error.message)
  end

  # --- time ---

  def test_a_handshake_has_a_limit_of_time
    silent, server = UNIXSocket.pair
    transport = keep(Gyre::Transport.new(server, "client"))
    error = assert_raises(Gyre::TimeoutError) { transport.start_tls(server_context(), timeout_s: 0.01) }
    assert_match(/TLS handshake with client/, error.message)
  ensure
    silent.close
  end

  def test_a_peer_that_sends_byte_after_byte_does_not_prolong_it
    slow, server = UNIXSocket.pair
    transport = keep(Gyre::Transport.new(server, "client"))
    drip = Thread.new do
      "\x16\x03\x01\x02\x00\x01\x00\x01".b.each_char { |byte| slow.write(byte) && sleep(0.02) }
      slow.write("\x00") while sleep(0.02)
    rescue Errno::EPIPE
      nil # the server gave up
    end
    assert_raises(Gyre::TimeoutError) { transport.start_tls(server_context(), timeout_s: 0.1) }
  ensure
    transport.abandon
    drip&.join
    slow.close
  end

  def test_a_handshake_is_over_only_when_its_last_bytes_are_sent
    (near, far), (server_far, server_near) = UNIXSocket.pair, UNIXSocket.pair
    client, server = begin_pair(client_context(ca: @ca), server_context, sockets: [near, server_near])
    assert_equal :wait_readable, client.handshake_available
    server_far.write(far.readpartial(10_000))
    assert_equal :wait_readable, server.handshake_available
    junk = 0
    while (written = near.write_nonblock("junk", exception: false)).is_a?(Integer)
      junk += written
    end
    far.write(server_far.readpartial(10_000))
    assert_equal :wait_writable, client.handshake_available
    assert_equal({ read: false, write: true }, client.wants)
    far.read(junk)
    assert_equal true, client.handshake_available
    server_far.write(far.readpartial(10_000))
    assert_equal true, server.handshake_available
  ensure
    [far, server_far].each(&:close)
  end

  # --- records ---

  def test_the_first_bytes_of_a_burst_go_in_a_small_record
    client, server, relay = relayed_pair
    client.write("x" * 40_000)
    assert_equal 40_000, read_through(server, relay, 40_000).bytesize
    assert_equal [4096, 16_384, 16_384, 3136], relay.records
    eventually(what: "a write soon after the one before") do
      relay.records.clear
      client.write("x" * 10_000)
      read_through(server, relay, 10_000)
      relay.records == [10_000]
    end
    relay.records.clear
    sleep 1.05 # idle time is real time here
    client.write("x" * 10_000)
    read_through(server, relay, 10_000)
    assert_equal [4096, 5904], relay.records
  end

  def test_small_pieces_share_a_record
    client, server, relay = relayed_pair
    client.write("one", "", "two", "three")
    assert_equal "onetwothree", read_through(server, relay, 11)
    assert_equal [11], relay.records
  end

  # --- before TLS ---

  def test_tls_may_begin_after_a_plain_beginning
    client, server = UNIXSocket.pair.zip(%w[server client]).map { |socket, peer| keep(Gyre::Transport.new(socket, peer)) }
    client.queue("STARTTLS\n")
    client.flush_available
    client.begin_tls(client_context(ca: @ca), name: "localhost")
    client.handshake_available # its first flight comes in one piece with the line
    assert_equal "STARTTLS\n", server.gets
    server.begin_tls(server_context())
    shake([client, server])
    exchange(client, server)
    assert_raises(RuntimeError) { server.begin_tls(server_context()) }
  end

  # --- settings ---

  def test_a_file_that_is_missing_is_named
    folder = certificates.path("nowhere")
    assert_match(/the certificate .*nowhere\.pem: No such file/, fault(cert: "#{folder}.pem"))
    assert_match(/the key .*nowhere\.key: No such file/, fault(key: "#{folder}.key"))
    assert_match(/the ca .*nowhere\.pem: No such file/, fault(ca: "#{folder}.pem"))
    refute_match(/rb_sysopen/, fault(ca: "#{folder}.pem"))
  end

  def test_a_file_of_another_kind_is_named
    rubbish = certificates.write("rubbish.pem", "rubbish")
    broken = certificates.write("broken.pem", "-----BEGIN CERTIFICATE-----\nrubbish\n-----END CERTIFICATE-----\n")
    assert_match(/certificate .*rubbish\.pem holds no PEM/, fault(cert: rubbish))
    assert_match(/certificate .*broken\.pem cannot be read/, fault(cert: broken))
    assert_match(/certificate .*chain\.pem cannot be read/,
                 fault(cert: certificates.write("chain.pem", File.read(@certificate) + File.read(broken))))
    assert_match(/key .*rubbish\.pem cannot be read: it must be a private key in PEM/, fault(key: rubbish))
    assert_match(/ca .*rubbish\.pem cannot be read/, fault(ca: rubbish))
    der = certificates.path("der.key").tap { |path| File.binwrite(path, OpenSSL::PKey.read(File.read(@key)).to_der) }
    assert_match(/the key .*der\.key cannot be read: it must be in PEM/, fault(key: der))
    assert_match(/the certificate .*der\.key cannot be read: it must be in PEM/, fault(cert: der))
  end

  def test_no_message_has_the_text_of_a_key
    body = File.read(@key).lines[1..-2]
    [body.join, body.join.delete("\n"), File.read(@key).delete("-")].each do |text|
      assert_equal "tls: the key is neither PEM nor the path of a file", fault(key: text)
    end
  end

  def test_a_key_of_another_certificate_is_named
    _, key = certificates.issue("another")
    assert_match(/the key .*another\.key does not belong to the certificate .*server\.pem/, fault(key: key))
  end

  def test_a_key_with_a_passphrase_is_refused_without_asking
    locked = certificates.write("locked.key", OpenSSL::PKey.read(File.read(@key)).to_pem(OpenSSL::Cipher.new("aes-128-cbc"), "secret"))
    assert_match(/locked\.key is encrypted: give its passphrase .* or store it without a passphrase/, fault(key: locked))
    assert_match(/locked\.key is encrypted, and the passphrase given is not its own/, fault(key: locked, key_passphrase: "wrong"))
    assert connect(client_context(ca: @ca), server_context(key: locked, key_passphrase: "secret"))
  end

  def test_the_order_of_certificates_is_checked
    stranger = File.read(certificates.authority("stranger"))
    assert_match(/certificate .*mixed\.pem: number 2 in it, CN=stranger, did not sign number 1, CN=server: the server's own comes first/,
                 fault(cert: certificates.write("mixed.pem", File.read(@certificate) + stranger)))
    reversed = certificates.write("reversed.pem", File.read(@ca) + File.read(@certificate))
    assert_match(/reversed\.pem: number 2 in it, CN=server, did not sign number 1/, fault(cert: reversed))
  end

  def test_other_identities_are_servers_with_a_key
    client = client_context(ca: @ca)
    assert_match(/must be a context of Gyre::TLS.server/, fault(names: { "example.org" => client }))
    [{ key: nil }, { cert: nil }, { cert: nil, key: nil }].each do |options|
      assert_equal "tls: a server needs a certificate and its key", assert_raises(ArgumentError) { server_context(**options) }.message
    end
  end

  def test_half_settings_are_refused
    assert_match(/ca must name/, fault(verify: true))
    assert_match(/true, false or :optional/, fault(ca: @ca, verify: :maybe))
    assert_match(/needs its key/, assert_raises(ArgumentError) { client_context(cert: @certificate) }.message)
  end

  def test_the_settings_alone_load_what_they_need
    assert_equal "Gyre::TLS::Context\n", ruby("-rgyre/net/tls", "-e", "puts Gyre::TLS.client(verify: false).class").out
  end

  def test_without_libssl_one_line_names_what_to_install
    output = ruby("-rgyre/net", "-e", <<~RUBY)
      Gyre::TLS::Context.undef_method(:build)
      begin
        Gyre::TLS.client
      rescue Gyre::ExtensionRequired => error
        puts error.message
      end
    RUBY
    assert_equal "TLS needs OpenSSL 3, which was missing when Gyre was built: install it (Debian: libssl-dev) and reinstall the gem\n",
                 output.out
  end

  def test_errors_leave_nothing_for_ruby_openssl
    refusal(client_context(ca: certificates.authority("stranger")), server_context)
    fault(key: certificates.write("rubbish.key", "rubbish"))
    assert_empty OpenSSL.errors
  end

  private

  def server_context(cert: @certificate, key: @key, **options) = Gyre::TLS.server(cert: cert, key: key, **options)
  def client_context(**options) = Gyre::TLS.client(**options)
  def fault(**options) = assert_raises(ArgumentError) { server_context(**options) }.message

  def server_context_of(subject, alt)
    certificate, key = certificates.issue(subject, alt: alt)
    server_context(cert: certificate, key: key)
  end

  def begin_pair(client_context, server_context, name: "localhost", sockets: UNIXSocket.pair)
    client, server = sockets.zip(%w[server client]).map { |socket, peer| keep(Gyre::Transport.new(socket, peer)) }
    [client.begin_tls(client_context, name: name), server.begin_tls(server_context)]
  end

  def shake(pair)
    nil until pair.map(&:handshake_available).all?(true)
    pair
  end

  def shake_openssl(transport)
    ours = theirs = false
    until ours && theirs
      theirs ||= yield
      ours ||= transport.handshake_available == true
    end
  end

  def connect(...) = shake(begin_pair(...))

  # Why a side refused the other; nil for `of`: whichever did it first.
  def refusal(client_context, server_context, of: nil, **options)
    pair = begin_pair(client_context, server_context, **options)
    errors = pair.map { nil }
    4.times do
      pair.each_with_index do |transport, index|
        transport.read_available unless errors[index]
      rescue Gyre::TLS::Error => error
        errors[index] = error
      end
      break if of ? errors[of] : errors.any?
    end
    (of ? errors[of] : errors.compact.first)&.message
  end

  # A word each way, so that what comes behind the handshake (sessions) has come.
  def exchange(client, server)
    server.write("welcome")
    assert_equal "welcome", client.read_available
    client.write("thanks")
    assert_equal "thanks", server.read_available
  end

  def with_openssl_client(context)
    left, right = UNIXSocket.pair
    socket = OpenSSL::SSL::SSLSocket.new(left, context)
    socket.hostname = "localhost"
    transport = keep(Gyre::Transport.new(right, "openssl"))
    yield transport.begin_tls(server_context), socket
  ensure
    left.close
  end

  def with_openssl_server(context)
    left, right = UNIXSocket.pair
    yield keep(Gyre::Transport.new(right, "openssl")), OpenSSL::SSL::SSLSocket.new(left, context)
  ensure
    left.close
  end

  # Between a client and a server: counts the plain bytes of the client's application records.
  class Relay
    TAG_BYTES = 17 # TLS 1.3: the kind, and the tag of every cipher in use
    attr_reader :records

    def initialize(client, server)
      @client = client
      @server = server
      @records = []
      @bytes = String.new
    end

    def turn
      [[@client, @server], [@server, @client]].each do |from, to|
        bytes = from.read_nonblock(100_000, exception: false)
        next unless bytes.is_a?(String)

        count(bytes) if from.equal?(@client)
        to.write(bytes)
      end
    end

    def count(bytes)
      @bytes << bytes
      while @bytes.bytesize >= 5 && @bytes.bytesize >= 5 + @bytes.unpack1("@3n")
        kind, length = @bytes.unpack("C@3n")
        @records << (length - TAG_BYTES) if kind == 23
        @bytes = @bytes.byteslice(5 + length..)
      end
    end

    def close = [@client, @server].each(&:close)
  end

  def relayed_pair
    client_side, server_side = Array.new(2) { UNIXSocket.pair }
    @relay = relay = Relay.new(client_side[1], server_side[0])
    pair = begin_pair(*GyreTest::Transports.contexts, sockets: [client_side[0], server_side[1]])
    relay.turn until pair.map(&:handshake_available).all?(true)
    relay.turn
    relay.records.clear
    [*pair, relay]
  end

  def read_through(transport, relay, length)
    read = String.new
    while read.bytesize < length
      relay.turn
      bytes = transport.read_available(100_000)
      read << bytes if bytes.is_a?(String)
    end
    read
  end

  def teardown
    @relay&.close
    super
  end

  def hashed_folder
    folder = certificates.path("authorities")
    FileUtils.mkdir_p(folder)
    hash = OpenSSL::X509::Certificate.new(File.read(@ca)).subject.hash.to_s(16).rjust(8, "0")
    FileUtils.cp(@ca, File.join(folder, "#{hash}.0"))
    folder
  end
end
