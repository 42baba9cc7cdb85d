# frozen_string_literal: true

# Contexts from files, what they let through, and what is said of wrong files: Gyre::TLS.

require "test_helper"
require "socket"
require "tmpdir"
require "gyre/net/tls"
require "support/certificates"

class TLSTest < Minitest::Test
  def setup
    @folder = Dir.mktmpdir
    @certificates = GyreTest::Certificates.new(@folder)
    @certificate, @key = @certificates.issue("server")
    @ca = @certificates.authority
  end

  def teardown
    FileUtils.rm_rf(@folder)
  end

  def test_a_client_that_trusts_the_authority_gets_through
    assert_equal "hello", talk(server, Gyre::TLS.client(ca: @ca))
  end

  def test_a_client_that_does_not_trust_it_refuses
    error = assert_raises(OpenSSL::SSL::SSLError) { talk(server, Gyre::TLS.client(ca: @certificates.authority("stranger"))) }
    assert_match(/certificate verify failed/, error.message)
    assert_raises(OpenSSL::SSL::SSLError) { talk(server, Gyre::TLS.client) }
  end

  def test_the_name_in_the_certificate_counts
    assert_raises(OpenSSL::SSL::SSLError) { talk(server, Gyre::TLS.client(ca: @ca), name: "elsewhere.invalid") }
    assert_equal "hello", talk(server, Gyre::TLS.client(verify: false), name: "elsewhere.invalid")
  end

  def test_a_server_with_authorities_wants_a_certificate_of_theirs
    strict = server(ca: @ca)
    certificate, key = @certificates.issue("client")
    assert_equal "hello", talk(strict, Gyre::TLS.client(ca: @ca, certificate: certificate, key: key))
    assert_refused(strict, Gyre::TLS.client(ca: @ca))
    certificate, key = @certificates.issue("other", by: "stranger")
    assert_refused(strict, Gyre::TLS.client(ca: @ca, certificate: certificate, key: key))
  end

  def test_a_server_may_take_clients_without_a_certificate_as_well
    lenient = server(ca: @ca, verify: :optional)
    assert_equal "hello", talk(lenient, Gyre::TLS.client(ca: @ca))
    certificate, key = @certificates.issue("other", by: "stranger")
    assert_refused(lenient, Gyre::TLS.client(ca: @ca, certificate: certificate, key: key))
  end

  def test_the_certificates_between_are_sent_along
    chain = @certificates.write("chain.pem", File.read(@certificate) + File.read(@ca))
    assert_equal "hello", talk(server(certificate: chain), Gyre::TLS.client(ca: @ca))
  end

  def test_the_authorities_may_be_a_folder
    assert_equal "hello", talk(server, Gyre::TLS.client(ca: hashed_folder))
  end

  def test_a_file_that_is_missing_is_named
    assert_match(/the certificate .*nowhere\.pem: No such file/, refusal(certificate: "#{@folder}/nowhere.pem"))
    assert_match(/the key .*nowhere\.key: No such file/, refusal(key: "#{@folder}/nowhere.key"))
    assert_match(/the ca .*nowhere\.pem: No such file/, refusal(ca: "#{@folder}/nowhere.pem"))
    refute_match(/rb_sysopen/, refusal(ca: "#{@folder}/nowhere.pem"))
  end

  def test_a_file_of_another_kind_is_named
    rubbish = @certificates.write("rubbish.pem", "rubbish")
    broken = @certificates.write("broken.pem", "-----BEGIN CERTIFICATE-----\nrubbish\n-----END CERTIFICATE-----\n")
    assert_match(/certificate .*rubbish\.pem holds no PEM/, refusal(certificate: rubbish))
    assert_match(/certificate .*broken\.pem cannot be read/, refusal(certificate: broken))
    assert_match(/key .*rubbish\.pem cannot be read.*without a passphrase/, refusal(key: rubbish))
    assert_match(/ca .*rubbish\.pem/, refusal(ca: rubbish))
  end

  def test_a_key_of_another_certificate_is_named
    _, key = @certificates.issue("other")
    assert_match(/the key .*other\.key does not belong to the certificate .*server\.pem/, refusal(key: key))
  end

  def test_a_key_with_a_passphrase_is_refused_without_asking
    locked = OpenSSL::PKey.read(File.read(@key)).to_pem(OpenSSL::Cipher.new("aes-128-cbc"), "secret")
    assert_match(/without a passphrase/, refusal(key: @certificates.write("locked.key", locked)))
  end

  def test_half_settings_are_refused
    assert_match(/ca must name/, refusal(verify: true))
    assert_match(/true, false or :optional/, refusal(ca: @ca, verify: :maybe))
    assert_match(/needs its key/, assert_raises(ArgumentError) { Gyre::TLS.client(certificate: @certificate) }.message)
  end

  private

  def server(certificate: @certificate, key: @key, **options)
    Gyre::TLS.server(certificate: certificate, key: key, **options)
  end

  def refusal(**options)
    assert_raises(ArgumentError) { server(**options) }.message
  end

  # A word from the server to the client.
  def talk(server_context, client_context, name: "localhost")
    left, right = UNIXSocket.pair
    serving = Thread.new { serve(left, server_context) }
    client = OpenSSL::SSL::SSLSocket.new(right, client_context)
    client.hostname = name
    client.connect
    client.read
  ensure
    right.close
    serving.join
  end

  def serve(socket, context)
    tls = OpenSSL::SSL::SSLSocket.new(socket, context)
    tls.accept
    tls.write("hello")
    tls.close
  rescue OpenSSL::SSL::SSLError, SystemCallError
    nil # the client's side tells
  ensure
    socket.close
  end

  # With TLS 1.3 the client hears of it when it reads.
  def assert_refused(server_context, client_context)
    assert_raises(OpenSSL::SSL::SSLError, Errno::ECONNRESET, Errno::EPIPE) { talk(server_context, client_context) }
  end

  def hashed_folder
    folder = File.join(@folder, "authorities")
    Dir.mkdir(folder)
    hash = OpenSSL::X509::Certificate.new(File.read(@ca)).subject.hash.to_s(16).rjust(8, "0")
    FileUtils.cp(@ca, File.join(folder, "#{hash}.0"))
    folder
  end
end
