# frozen_string_literal: true

# The protocols between a client and a server in one reactor, over Unix sockets.
require "test_helper"
require "gyre/event_machine"

module EventMachineTests
  class ProtocolsTest < Minitest::Test
    EM = Gyre::EventMachine
    P = EM::Protocols

    # Answers each connection's first bytes with fixed ones.
    class Scripted < EM::Connection
      def initialize(reply, requests, close)
        super
        @reply, @requests, @close = reply, requests, close
      end

      def receive_data(data)
        @requests << data
        send_data(@reply)
        @close ? close_connection_after_writing : nil
      end
    end

    # Answers a GET with its path.
    module Paths
      def receive_data(data)
        path = data[/\AGET (\S+)/, 1]
        send_data("HTTP/1.1 200 OK\r\nX-Path: #{path}\r\nContent-Length: #{path.bytesize}\r\n\r\n#{path}")
      end
    end

    class Mailbox < P::SmtpServer
      attr_reader :mail

      # Stands for a server with AUTH.
      def receive_line(line)
        return super unless line.start_with?("AUTH PLAIN ")

        send_data(line.unpack1("@11m") == "\0me\0secret" ? "235 welcome\r\n" : "535 invalid authentication\r\n")
      end

      def receive_recipient(recipient) = !recipient.include?("nobody")

      def receive_data_chunk(lines)
        (@mail ||= []).concat(lines)
      end

      def connection_ended = EM.stop
    end

    def setup
      @port = free_port
      @requests = []
    end

    def test_http_bodies_have_a_length_or_chunks_or_end_with_the_connection
      chunked = "Transfer-Encoding: chunked\r\n\r\n1;x\r\na\r\n2\r\nbc\r\n0\r\nT: 1\r\n\r\n"
      { "Content-Length: 3\r\n\r\nabc" => false, chunked => false, "\r\nabc" => true }.each do |rest, close|
        result = request("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n#{rest}", close, request: "/x", query_string: "a=b", cookie: "c=d")
        assert_equal [200, "abc"], [result[:status], result[:content]]
        assert_match(%r{\AGET /x\?a=b HTTP/1.1\r\nhost: 127.0.0.1:#{@port}\r\n.*^cookie: c=d\r\n}mi, @requests.pop)
      end
    end

    def test_http_that_ends_early_fails
      assert_equal({ status: 0 }, request("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", true))
    end

    def test_an_answer_that_is_not_http_fails_its_request_alone
      ok = "HTTP/1.1 200 OK\r\n"
      ["SMTP\r\n#{ok}\r\n", "#{ok}Content-Length: -1\r\n\r\n", "#{ok}Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
       "#{ok}Transfer-Encoding: chunked\r\n\r\nzz\r\n#{ok}Content-Length: 0\r\n\r\n"].each do |reply|
        assert_equal({ status: 0 }, request(reply, false), reply)
      end
    end

    def test_http_requests_with_line_breaks_are_refused
      assert_raises(ArgumentError) { request("", true, request: "/ HTTP/1.1\r\nX: y") }
    end

    def test_http_requests_go_one_after_the_other
      got = []
      serve(Paths) do
        http = P::HttpClient2.connect("127.0.0.1", @port)
        http.get("/1").callback { |response| got << response.content << response.headers["x-path"] }
        http.get(uri: "/2", query_string: "b=c").callback do |response|
          got << response.status << response.header_lines.last
          http.close_connection
          EM.stop
        end
      end
      assert_equal ["/1", ["/1"], 200, "content-length: 6"], got
    end

    def test_http_without_a_server_fails
      error = nil
      EM.run { P::HttpClient2.connect(host: "127.0.0.1", port: @port).get("/").errback { |request| error = request.internal_error and EM.stop } }
      assert_kind_of Gyre::HTTP::Client::ConnectionError, error
    end

    def test_mail_goes_from_client_to_server
      server, outcome = mail(auth: { type: :plain, username: "me", password: -> { "secret" } }, to: %w[a@x nobody@x],
                             header: { "Subject" => "Dots" }, body: ".\r\n..end")
      assert_equal ["Subject: Dots", "", ".", "..end"], server.mail
      assert_equal [250, 550], outcome
    end

    def test_mail_that_is_refused_reports_it
      _, outcome = mail(auth: { type: :plain, username: "me", password: "wrong" }, to: "a@x", body: "")
      assert_equal({ code: 535, message: "invalid authentication" }, outcome)
      _, outcome = mail(to: "nobody@x", body: "")
      assert_equal({ code: 550, message: "recipient is unacceptable" }, outcome)
    end

    def test_a_mail_resets_nothing_without_rset
      resets = []
      server = Class.new(P::SmtpServer) do
        define_method(:receive_message) { true }
        define_method(:receive_reset) { resets << :reset }
      end
      replies = +""
      client = Module.new do
        define_method(:connection_completed) { send_data("EHLO a\r\nMAIL FROM:<a@x>\r\nRCPT TO:<b@x>\r\nDATA\r\ntext\r\n.\r\nQUIT\r\n") }
        define_method(:receive_data) { |data| replies << data }
        define_method(:unbind) { EM.stop }
      end
      serve(server) { EM.connect("127.0.0.1", @port, client) }
      assert_includes replies, "250 Message accepted"
      assert_empty resets
    end

    def test_objects_headers_and_credentials_travel
      got = []
      objects = Module.new do
        include P::ObjectProtocol
        define_method(:receive_object) { |object| send_object([object]) }
      end
      client = Module.new do
        include P::ObjectProtocol
        define_method(:post_init) { send_object("a" * 20_000) }
        define_method(:receive_object) { |object| got << object.first.size and EM.stop }
      end
      serve(objects) { EM.connect("127.0.0.1", @port, client) }
      guard = Module.new do
        include P::SASLauth
        define_method(:validate) { |user, password, *| user == password }
      end
      serve(guard) do
        sasl = EM.connect("127.0.0.1", @port, Module.new { include P::SASLauthclient })
        sasl.validate?("a", "a").callback { got << :accepted }
        sasl.validate?("a", "b").errback { got << :refused and EM.stop }
      end
      assert_equal [20_000, :accepted, :refused], got
      assert_equal({ accept: "a", x_b: "c: d" }, P::HeaderAndContentProtocol.headers_2_hash(["GET / HTTP/1.0", "Accept: a", "X-B:c: d"]))
    end

    private

    def serve(handler, *arguments)
      EM.run do
        EM.add_timer(60) { raise "nothing has happened" }
        EM.start_server("127.0.0.1", @port, handler, *arguments)
        yield
      end
    end

    def request(reply, close, **arguments)
      outcome = nil
      serve(Scripted, reply, @requests, close) do
        client = P::HttpClient.request(host: "127.0.0.1", port: @port, **arguments)
        take = ->(result) { outcome = result and EM.stop }
        client.callback(&take)
        client.errback(&take)
      end
      outcome
    end

    def mail(**arguments)
      outcome = connection = nil
      EM.run do
        EM.add_timer(60) { raise "nothing has happened" }
        EM.start_server("127.0.0.1", @port, Mailbox) { |server| connection = server }
        sent = P::SmtpClient.send(host: "127.0.0.1", port: @port, domain: "x", from: "me@x", **arguments)
        sent.callback { |codes| outcome = codes }
        sent.errback { |error| outcome = error }
      end
      [connection, outcome]
    end
  end
end
