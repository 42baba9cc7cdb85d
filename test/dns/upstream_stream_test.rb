# frozen_string_literal: true

# Name servers over TCP and TLS (Gyre::DNS::UpstreamStream): shared connections, replies in any
# order.
require "test_helper"
require "tmpdir"
require "gyre"
require "gyre/dns/resolver"
require "support/certificates"
require "support/name_servers"

class DNSUpstreamStreamTest < Minitest::Test
  include GyreTest::NameServers

  def teardown
    @upstream&.close
    close_scripted
  end

  def test_replies_come_in_any_order_and_the_connection_serves_the_next_caller
    held = []
    server = scripted do |bytes|
      next reply_to(bytes, "#{name_of(bytes)} 60 TXT #{name_of(bytes)}") if name_of(bytes) == "one.test"

      held << reply_to(bytes, "#{name_of(bytes)} 60 TXT #{name_of(bytes)}")
      held.size == 2 ? held.reverse : nil
    end
    @upstream = Gyre::DNS::Upstream.new("tcp://#{server.address}")
    queries = %w[a.test b.test].map { |name| Gyre::DNS::Query.ask(name, 16) }
    Gyre.run { @upstream.exchange(queries) }
    assert_equal %w[a.test b.test], queries.map { |query| Gyre::DNS::Message.parse(query.reply).answers.first.resource.strings.first }
    2.times { assert_equal "one.test", Thread.new { text("one.test") }.value }
    assert_equal 1, server.connections
  end

  def test_a_stopped_caller_leaves_no_connection_to_the_next_one
    server = scripted { |bytes| reply_to(bytes, "#{name_of(bytes)} 60 TXT #{name_of(bytes)}") unless name_of(bytes) == "never.test" }
    @upstream = Gyre::DNS::Upstream.new("tcp://#{server.address}", timeout_s: 60)
    Gyre.run do |task|
      caller = task.async { text("never.test") }
      eventually { server.queries.any? }
      caller.stop
      assert_equal "good.test", text("good.test")
    end
    assert_equal 2, server.connections
  end

  def test_a_connection_that_the_server_has_closed_is_replaced
    server = scripted { |bytes| reply_to(bytes, "#{name_of(bytes)} 60 TXT one") }
    @upstream = Gyre::DNS::Upstream.new("tcp://#{server.address}", attempts: 1, timeout_s: 60)
    2.times do |index|
      assert_equal "one", text("a.test")
      assert_equal index + 1, server.connections
      server.close_connections
    end
  end

  def test_a_server_that_answers_one_query_of_a_connection_answers_two_by_two_connections
    server = scripted do |bytes|
      [reply_to(bytes, "#{name_of(bytes)} 60 TXT one"), -> { server.end_connections }]
    end
    @upstream = Gyre::DNS::Upstream.new("tcp://#{server.address}", attempts: 1, timeout_s: 60)
    queries = %w[a.test b.test].map { |name| Gyre::DNS::Query.ask(name, 16) }
    Gyre.run { @upstream.exchange(queries) }
    assert queries.all?(&:answered?), queries.map(&:failure).inspect
    assert_equal 2, server.connections
  end

  def test_a_server_over_tcp_without_edns_is_asked_without
    server = scripted do |bytes|
      Gyre::DNS::Message.parse(bytes).edns ? reply_to(bytes, rcode: 1) : reply_to(bytes, "a.test 60 TXT one")
    end
    @upstream = Gyre::DNS::Upstream.new("tcp://#{server.address}", attempts: 1, timeout_s: 60)
    assert_equal "one", text("a.test")
  end

  def test_a_server_that_ends_before_it_answers_is_not_an_answer
    server = scripted { server.close_connections && nil }
    @upstream = Gyre::DNS::Upstream.new("tcp://#{server.address}", attempts: 1, timeout_s: 60)
    query = Gyre::DNS::Query.ask("a.test", 1)
    Gyre.run { @upstream.exchange([query]) }
    assert_match(/ended after|reset/, query.failure)
  end

  def test_a_silent_server_ends_with_the_time_and_its_connection_is_not_used_again
    server = scripted { |bytes| reply_to(bytes, "b.test 60 TXT one") if name_of(bytes) == "b.test" }
    @upstream = Gyre::DNS::Upstream.new("tcp://#{server.address}", attempts: 1, timeout_s: 0.1)
    query = Gyre::DNS::Query.ask("a.test", 1)
    Gyre.run { @upstream.exchange([query]) }
    assert_nil query.reply
    eventually { text("b.test") == "one" }
    assert_operator server.connections, :>, 1
  end

  def test_silence_ends_idle_connections_too_as_they_may_be_as_dead
    gate = Thread::Queue.new
    server = scripted do |bytes|
      gate.pop if name_of(bytes) == "held.test"
      reply_to(bytes, "#{name_of(bytes)} 60 TXT one") unless name_of(bytes) == "silent.test"
    end
    @upstream = Gyre::DNS::Upstream.new("tcp://#{server.address}", timeout_s: 60)
    callers = Array.new(2) { Thread.new { text("held.test") } }
    eventually { server.queries.size == 2 }
    2.times { gate << true }
    assert_equal %w[one one], callers.map(&:value)
    stream = @upstream.stream(@upstream.servers.first)
    assert_empty stream.exchange([Gyre::DNS::Query.ask("silent.test", 16)], Gyre::Clock.now + 0.05)
    assert_equal "one", text("next.test")
    assert_equal 3, server.connections
  end

  def test_tls_verifies_the_servers_certificate
    Dir.mktmpdir do |folder|
      certificates = GyreTest::Certificates.new(folder)
      cert, key = certificates.issue("server", alt: "DNS:dns.test,IP:127.0.0.1")
      with_tls_server(cert, key) do |port|
        trusting = Gyre::TLS.client(ca: certificates.authority, alpn: ["dot"])
        ["tls://127.0.0.1:#{port}", "tls://127.0.0.1:#{port}#dns.test"].each { |address| assert_equal "secret", over_tls(address, trusting) }
        assert_match(/certificate/, over_tls("tls://127.0.0.1:#{port}#other.test", trusting))
        assert_match(/certificate/, over_tls("tls://127.0.0.1:#{port}", nil))
      end
    end
  end

  private

  def text(name, upstream = @upstream)
    query = Gyre::DNS::Query.ask(name, 16)
    upstream.exchange([query])
    query.reply ? Gyre::DNS::Message.parse(query.reply).answers.first.resource.strings.first : query.failure
  end

  def over_tls(address, tls)
    upstream = Gyre::DNS::Upstream.new(address, tls: tls, attempts: 1, timeout_s: 30)
    Gyre.run { text("a.test", upstream) }
  ensure
    upstream&.close
  end

  def with_tls_server(cert, key)
    server = Gyre.listen("tcp://127.0.0.1:0", tls: Gyre::TLS.server(cert: cert, key: key))
    thread = Thread.new do
      Gyre.run do
        server.each do |peer|
          while (length = peer.read(2)&.unpack1("n"))
            reply = reply_to(peer.read(length), "a.test 60 TXT secret")
            peer.write([reply.bytesize].pack("n"), reply)
          end
        rescue Gyre::TLS::Error, SystemCallError
          nil # it did not trust the certificate
        end
      end
    end
    yield server.port
  ensure
    server&.close
    thread&.join
  end
end
