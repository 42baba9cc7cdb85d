# frozen_string_literal: true

# Which settings of an OpenSSL::SSL::SSLContext the client of memcached takes over.
require "test_helper"
require "gyre/memcached"
require "support/certificates"
require "support/openssl_peer"
require "support/scripted_memcached"

class MemcachedOpenSSLContextTest < Minitest::Test
  Options = Gyre::Memcached::Options

  def setup
    skip "this build has no TLS" unless Gyre::TLS.available?
  end

  def test_the_versions_are_those_of_the_context
    all = [OpenSSL::SSL::TLS1_2_VERSION, OpenSSL::SSL::TLS1_3_VERSION]
    { {} => all, { min_version: :TLS1_3 } => all.last(1), { max_version: :TLS1_2 } => all.first(1) }.each do |settings, expected|
      context = OpenSSL::SSL::SSLContext.new.tap { |made| made.set_params(settings) }
      assert_equal expected, Gyre::Memcached::OpenSSLContext.offered_versions(context).sort & all, settings.inspect
    end
  end

  def test_a_server_of_an_older_version_than_the_context_permits_is_refused
    Dir.mktmpdir do |folder|
      certificates = GyreTest::Certificates.new(folder)
      peer = OpenSSL::SSL::SSLContext.new
      certificate, key = certificates.issue("localhost").map { |path| File.read(path) }
      peer.add_certificate(OpenSSL::X509::Certificate.new(certificate), OpenSSL::PKey.read(key))
      peer.max_version = :TLS1_2
      listener = TCPServer.new("127.0.0.1", 0)
      serving = Thread.new { OpenSSL::SSL::SSLServer.new(listener, peer).accept rescue nil }
      context = OpenSSL::SSL::SSLContext.new.tap { |made| made.set_params(ca_file: certificates.authority, min_version: :TLS1_3) }
      client = Gyre::Memcached::Client.new("localhost:#{listener.addr[1]}", ssl_context: context, socket_max_failures: 0)
      assert_raises(Gyre::Memcached::NoServerError) { client.get("key") }
      serving.join
    ensure
      [client, listener].compact.each(&:close)
    end
  end

  def test_a_file_and_a_folder_of_authorities_count_both
    Dir.mktmpdir do |folder|
      certificates = GyreTest::Certificates.new(folder)
      authority = OpenSSL::X509::Certificate.new(File.read(certificates.authority))
      Dir.mkdir("#{folder}/hashed")
      File.write(format("#{folder}/hashed/%08x.0", authority.subject.hash), authority.to_pem)
      other = certificates.authority("other")
      memcached = GyreTest::ScriptedMemcached.new(tls: certificates.issue("localhost"))
      context = OpenSSL::SSL::SSLContext.new.tap { |made| made.set_params(ca_file: other, ca_path: "#{folder}/hashed") }
      client = Gyre::Memcached::Client.new(memcached.address.sub("127.0.0.1", "localhost"), ssl_context: context)
      assert_nil client.get("key")
    ensure
      [client, memcached].compact.each(&:close)
    end
  end

  def test_a_name_is_checked_only_where_the_context_does
    Dir.mktmpdir do |folder|
      certificates = GyreTest::Certificates.new(folder)
      memcached = GyreTest::ScriptedMemcached.new(tls: certificates.issue("cache", alt: "DNS:cache.example"))
      clients = [true, false].map do |verify_hostname|
        context = OpenSSL::SSL::SSLContext.new.tap { |made| made.set_params(ca_file: certificates.authority, verify_hostname: verify_hostname) }
        Gyre::Memcached::Client.new(memcached.address, ssl_context: context, socket_max_failures: 0)
      end
      assert_raises(Gyre::Memcached::NoServerError) { clients.first.get("key") }
      assert_nil clients.last.get("key")
    ensure
      [*clients, memcached].compact.each(&:close)
    end
  end

  def test_what_cannot_be_taken_over_is_an_error_that_names_it
    { verify_depth: 1, ciphers: "ECDHE-RSA-AES128-GCM-SHA256", verify_callback: ->(*) { true } }.each do |name, value|
      context = OpenSSL::SSL::SSLContext.new.tap { |made| made.set_params(name => value) }
      error = assert_raises(ArgumentError, name) { Options.new({ ssl_context: context }) }
      assert_match(/\Assl_context: #{name}: /, error.message)
    end
  end
end
