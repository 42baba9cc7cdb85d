# frozen_string_literal: true

require "test_helper"
require "event_machine/reactors"
require "support/transports"

# start_tls: the handshake's callbacks, and the verification of certificates.
class EventMachineTLSTest < Minitest::Test
  include GyreTest::Reactors

  def setup
    @certificate, @key = GyreTest::Transports.identity("server")
    @ca = GyreTest::Transports.certificates.authority
  end

  def test_bytes_go_both_ways_after_the_handshake
    calls = talk({}, {})
    assert_equal [:server, :client, "hello"], calls
  end

  def test_tls_13_and_a_protocol_are_agreed_on
    facts = nil
    both = { ssl_version: %w[tlsv1_2 tlsv1_3], alpn: ["old"] }
    talk(both, both.merge(sni_hostname: "localhost")) do |client, server|
      facts = [client.get_cipher_protocol, client.get_alpn_protocol, server.get_sni_hostname]
    end
    assert_equal ["TLSv1.3", "old", "localhost"], facts
  end

  def test_the_judge_sees_the_chain_and_may_refuse
    [true, false].each do |verdict|
      seen = []
      calls = talk({}, { verify_peer: true }, judge: ->(pem) { seen << OpenSSL::X509::Certificate.new(pem).subject.to_s and verdict })
      assert_equal ["/CN=server"], seen
      assert_equal verdict ? [:server, :client, "hello"] : [Errno::EPROTO], calls
    end
  end

  def test_what_the_judge_raises_leaves_run
    error = assert_raises(ArgumentError) { talk({}, { verify_peer: true }, judge: ->(_) { raise ArgumentError, "judged" }) }
    assert_equal "judged", error.message
  end

  def test_authorities_judge_chain_and_name_by_option
    assert_equal [:server, :client, "hello"], talk({}, { verify: true, ca: @ca, sni_hostname: "localhost" })
    assert_equal [Errno::EPROTO], talk({}, { verify: true, ca: @ca, sni_hostname: "elsewhere.example" })
    assert_equal [Errno::EPROTO], talk({}, { verify: true, ca: GyreTest::Transports.certificates.authority("stranger"), sni_hostname: "localhost" })
  end

  def test_a_server_without_a_certificate_has_one_of_its_own
    assert_equal [:server, :client, "hello"], talk({ cert_chain_file: nil, private_key_file: nil }, {})
  end

  def test_a_missing_file_and_an_unknown_version_are_named
    run_reactor do
      EM.connect("127.0.0.1", serve) do |client|
        assert_match(/nowhere/, assert_raises(EM::FileNotFoundException) { client.start_tls(cert_chain_file: "nowhere") }.message)
        assert_match(/SSL.TLS Protocol: tlsv9/, assert_raises(RuntimeError) { client.start_tls(ssl_version: "tlsv9") }.message)
      end
      EM.stop
    end
  end

  def test_bytes_that_are_no_tls_end_the_connection_alone
    reasons = []
    run_reactor do
      port = serve(Told, server({}) { |name, _, reason = nil| reasons << reason and EM.stop if name == :unbind })
      EM.connect("127.0.0.1", port) { |client| client.send_data("GET / HTTP/1.0\r\n\r\n") }
    end
    assert_equal [Errno::EPROTO], reasons
  end

  private

  # Returns the completed handshakes and the reply of an echo, or the client's reason of unbind.
  def talk(server, client, judge: nil)
    calls = []
    accepted = nil
    run_reactor do
      port = serve(Told, server(server) do |name, connection, data = nil|
        accepted = connection
        calls << :server if name == :ssl_handshake_completed
        connection.send_data(data) if name == :receive_data
      end)
      EM.connect("127.0.0.1", port, Told, lambda do |name, connection, data = nil|
        case name
        when :connection_completed then connection.start_tls(client) || connection.send_data("hello")
        when :ssl_verify_peer then next judge.call(data)
        when :ssl_handshake_completed then calls << :client
        when :receive_data then calls << data and connection.close_connection
        when :unbind
          calls << data if data
          EM.stop
        end
        yield connection, accepted if name == :receive_data && block_given?
      end)
    end
    calls
  end

  def server(options, &told)
    lambda do |name, connection, *arguments|
      connection.start_tls({ cert_chain_file: @certificate, private_key_file: @key }.merge(options)) if name == :post_init
      told.call(name, connection, *arguments)
    end
  end
end
