# frozen_string_literal: true

# Which server a command talks to.

require "test_helper"
require "gyre/net"
require "openssl"
require "gyre/cli/log/target"

class CLILogTargetTest < Minitest::Test
  def setup
    @former = ENV.delete("GYRE_LOG_KEY")
  end

  def teardown
    ENV["GYRE_LOG_KEY"] = @former
  end

  def target(*arguments)
    Gyre::CLI::Log::Target.new.tap { |target| Gyre::CLI::Flags.new("x") { |flags| target.declare(flags) }.read(arguments) }
  end

  def test_by_flags_or_the_default
    assert_equal "tcp://127.0.0.1:6766", target.endpoint.to_s
    assert_equal "tcp://logs:1", target("-h", "logs", "-p", "1").endpoint.to_s
    assert_match(/\A--port: must be a port/, assert_raises(Gyre::UsageError) { target("-p", "x").endpoint }.message)
  end

  def test_by_an_address
    assert_equal ["unix:///run/g", "tcp://logs:1"], %w[unix:///run/g tcp://logs:1].map { |address| target("-a", address).endpoint.to_s }
    assert_match(/\A--address: "udp:.* is not an address/, assert_raises(Gyre::UsageError) { target("-a", "udp://a:1").endpoint }.message)
    error = assert_raises(Gyre::UsageError) { target("-a", "unix:///run/g", "-p", "1").endpoint }
    assert_equal "--address excludes --port: it has both", error.message
  end

  def test_from_the_servers_configuration
    Tempfile.create("log.yml") do |file|
      file.write("host: 0.0.0.0\nport: 7\nkey: sesame\n")
      file.flush
      target = target("-c", file.path)
      assert_equal ["tcp://127.0.0.1:7", "sesame"], [target.endpoint.to_s, target.key]
      assert_equal "tcp://127.0.0.1:8", target("-c", file.path, "-h", "127.0.0.1", "-p", "8").endpoint.to_s
      file.write("default_log: /nowhere/log\n") # which only the server writes to
      file.flush
      assert_equal "sesame", target("-c", file.path).key
      file.write("prot: 1\n")
      file.flush
      assert_match(/:5: prot: unknown key/, assert_raises(Gyre::StartError) { target("-c", file.path).key }.message)
    end
  end

  def test_the_first_address_that_can_be_connected_to
    bound = lambda do |addresses|
      Tempfile.create("log.yml") do |file|
        file.write("bind: #{addresses}\n")
        file.flush
        target = Gyre::CLI::Log::Target.new
        Gyre::CLI::Flags.new("x") { |flags| target.declare(flags) }.read(["-c", file.path])
        target.endpoint.to_s
      end
    end
    assert_equal "unix:///run/g", bound.call('["unix:///run/g", "tcp://*:7"]')
    assert_equal "tcp://127.0.0.1:7", bound.call('["tcp://127.0.0.1:0", "tcp://*:7"]')
    assert_equal "unix:///run/g", bound.call('["tcp://127.0.0.1:0", "unix:///run/g"]')
    assert_match(/port 0 .* name that one with -p/, assert_raises(Gyre::StartError) { target("-p", "0").endpoint }.message)
  end

  def test_the_key
    ENV["GYRE_LOG_KEY"] = "sesame"
    assert_equal "sesame", target.key
    assert_match(/cannot be read/, assert_raises(Gyre::StartError) { target("--key-file", "/nowhere/key").key }.message)
  end

  def test_tls
    assert_nil target.tls
    assert_kind_of Gyre::TLS::Context, target("--tls").tls
    assert_match(%r{tls: the ca /nowhere}, assert_raises(Gyre::StartError) { target("--tls", "/nowhere").tls }.message)
  end

  def test_what_happened_and_what_to_do
    assert_match(/no server listens on tcp.*gyre log/, target.explain(Errno::ECONNREFUSED.new))
    assert_match(/127\.0\.0\.1:6766 does not accept the key.*GYRE_LOG_KEY/, target.explain(Gyre::Log::Denied.new("no")))
    assert_match(/closed the connection; if it needs TLS, add --tls/, target.explain(EOFError.new))
    assert_match(/closed the connection; if it needs a certificate, name yours with --cert/, target("--tls").explain(EOFError.new))
    { "certificate verify failed" => "--tls CA", "tlsv13 alert certificate required" => "--cert and --cert-key",
      "wrong version number" => "leave --tls away" }.each do |words, advice|
      assert_includes target("--tls").explain(OpenSSL::SSL::SSLError.new(words)), advice
    end
    assert_equal "other", target.explain(StandardError.new("other"))
  end
end
