# frozen_string_literal: true

require "test_helper"
require "gyre/http/client"
require "http/client/scripted_server"
require "openssl"
require "support/certificates"
require "stringio"
require "tempfile"
require "tmpdir"

# Bodies of requests over HTTP/1: only a final response ends an upload, and each wait has its limit.
class HTTPClientUploadsTest < Minitest::Test
  include GyreTest::ScriptedServer

  Errors = Gyre::HTTP::Client
  OK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
  REFUSAL = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno"
  LONG = "x" * 16_000_000 # more than sockets hold
  EXPECT = { "expect" => "100-continue" }.freeze

  # A listener with TLS 1.3, whose session tickets follow the handshake at once.
  class SecureListener
    def initialize(folder)
      certificate, key = GyreTest::Certificates.new(folder).issue("server")
      context = OpenSSL::SSL::SSLContext.new
      context.cert = OpenSSL::X509::Certificate.new(File.read(certificate))
      context.key = OpenSSL::PKey.read(File.read(key))
      @listener = TCPServer.new("127.0.0.1", 0)
      @server = OpenSSL::SSL::SSLServer.new(@listener, context)
    end

    def to_io = @listener
    def accept = @server.accept
    def close = @listener.close
    def local_address = @listener.local_address
  end

  def test_an_interim_response_does_not_end_an_upload
    told = Queue.new
    received = Queue.new
    scripted(lambda { |peer|
      peer.head && peer.write("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n") && told << true
      received << chunks(peer)
      peer.write(OK)
    }) do |server|
      both_ways do
        pieces = Enumerator.new { |out| (out << "one") && told.pop && %w[two three].each { |piece| out << piece } }
        hints = []
        response = make(server).post("/", pieces, interim: ->(status, headers) { hints << [status, headers] })
        assert_equal ["ok", "onetwothree", [[103, { "link" => "</a>" }], [102, {}]]], [response.body, received.pop, hints]
      end
    end
  end

  def test_session_tickets_do_not_end_an_upload
    Dir.mktmpdir("gyre") do |folder|
      received = Queue.new
      accepted = Queue.new
      scripted(->(peer) { peer.head && (accepted << true) && (received << chunks(peer)) && peer.write(OK) }, SecureListener.new(folder)) do |server|
        both_ways do
          pieces = Enumerator.new { |out| (out << "one") && accepted.pop && %w[two three].each { |piece| out << piece } }
          assert_equal 200, make(server, "https", tls: Gyre::TLS.client(verify: false)).post("/", pieces).status
          assert_equal "onetwothree", received.pop
        end
      end
    end
  end

  def test_a_server_that_ignores_expect_gets_the_body_after_a_second_also_over_tls
    Dir.mktmpdir("gyre") do |folder|
      scripted(->(peer) { peer.head && peer.read(4) && peer.write(OK) }, SecureListener.new(folder)) do |server|
        client = make(server, "https", tls: Gyre::TLS.client(verify: false))
        assert_equal 200, client.post("/", StringIO.new("body"), headers: EXPECT).status
      end
    end
  end

  def test_a_string_waits_for_the_interim_response_too
    rest = Queue.new
    scripted(->(peer) { peer.head && peer.write("HTTP/1.1 417 No\r\nContent-Length: 0\r\n\r\n") && (rest << peer.finish) }) do |server|
      assert_equal 417, make(server).post("/", "body", headers: EXPECT).status
      assert_equal "", rest.pop
    end
    scripted(->(peer) { peer.head && peer.write("HTTP/1.1 100 Continue\r\n\r\n") && peer.read(4) && peer.write(OK) }) do |server|
      assert_equal 200, make(server).post("/", "body", headers: EXPECT).status
    end
  end

  def test_a_final_response_ends_each_kind_of_upload_at_once
    gate = Queue.new
    scripted(->(peer) { peer.head && peer.write(REFUSAL) && gate.pop }) do |server|
      each_long_body do |body|
        both_ways do
          response = make(server, write_timeout_s: 60).post("/", body.call)
          assert_equal [413, "no"], [response.status, response.body]
        end
      end
    ensure
      gate.close
    end
  end

  def test_an_upload_that_the_server_does_not_take_ends_at_its_limit
    gate = Queue.new
    scripted(->(peer) { peer.head && gate.pop }) do |server|
      each_long_body do |body|
        %i[write_timeout_s timeout_s].each do |limit|
          error = assert_raises(Errors::TimeoutError) { Gyre.run { make(server, limit => 0.1).post("/", body.call) } }
          assert_match(/send: send to .*\(#{limit}\)\z/, error.message)
        end
      end
    ensure
      gate.close
    end
  end

  def test_the_requests_time_ends_an_upload_that_never_stands_still
    endless = Enumerator.new { |out| loop { (out << "x" * 1000) && sleep(0.001) } }
    scripted(->(peer) { peer.head && loop { peer.read(1000) } }) do |server|
      both_ways { assert_match(/timeout_s/, assert_raises(Errors::TimeoutError) { make(server).post("/", endless, timeout_s: 0.1) }.message) }
    end
  end

  def test_a_server_that_ends_its_side_does_not_let_the_client_spin
    gate = Queue.new
    scripted(->(peer) { peer.head && peer.end_writing && gate.pop }) do |server|
      used_s = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID)
      assert_raises(Errors::TimeoutError) { Gyre.run { make(server, write_timeout_s: 0.5).post("/", LONG) } }
      assert_operator Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) - used_s, :<, 0.3
    ensure
      gate.close
    end
  end

  def test_interim_responses_do_not_delay_the_limit_of_an_upload
    scripted(->(peer) { peer.head && loop { peer.write("HTTP/1.1 102 Processing\r\n\r\n") && sleep(0.05) } }) do |server|
      error = assert_raises(Errors::TimeoutError, Errors::ProtocolError) { Gyre.run { make(server, write_timeout_s: 0.3).post("/", LONG) } }
      assert_match(/write_timeout_s|more than 16 interim responses/, error.message)
    end
  end

  private

  def setup = @made = []
  def teardown = @made.each(&:close)

  def make(server, scheme = "http", **options)
    Gyre::HTTP::Client.new(server.url.sub("http", scheme), proxy: nil, connect_timeout_s: 60, **options).tap { |client| @made << client }
  end

  # In a plain thread and on a loop.
  def both_ways(&block)
    block.call
    Gyre.run { block.call }
  end

  def each_long_body
    Tempfile.create("body") do |file|
      file.write(LONG)
      file.flush
      yield -> { LONG }
      yield -> { File.open(file.path, "rb") }
      yield -> { Enumerator.new { |out| 250.times { out << LONG[0, 64_000] } } }
    end
  end

  def chunks(peer)
    body = +""
    while (size = peer.line.to_i(16)).positive?
      body << peer.read(size + 2).delete_suffix("\r\n")
    end
    peer.line
    body
  end
end
