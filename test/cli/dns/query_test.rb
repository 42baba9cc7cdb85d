# frozen_string_literal: true

# `gyre dns query`, against Debian's dnsmasq, and beside Debian's dig.
require "test_helper"
require "stringio"
require "gyre/cli/dns/query"
require "gyre/dns/https"
require "gyre/web/server"
require "support/certificates"
require "support/dns_serving"
require "support/name_servers"
require "tmpdir"

class DNSQueryCommandTest < Minitest::Test
  include GyreTest::NameServers
  include GyreTest::DNSServing

  ZONE = %w[--local=/test/ --host-record=one.test,192.0.2.1,2001:db8::1 --cname=alias.test,one.test --ptr-record=1.2.0.192.in-addr.arpa,one.test
            --mx-host=one.test,mail.test,10 --srv-host=_sip._udp.test,one.test,5060,1,2 --local=/2.0.192.in-addr.arpa/]
         .push('--txt-record=one.test,a "b" \\c').freeze
  QUESTIONS = ["one.test", "one.test AAAA", "one.test MX", "one.test TXT", "alias.test", "_sip._udp.test SRV", "nothing.test",
               "1.2.0.192.in-addr.arpa PTR"].freeze

  def teardown = close_scripted

  def test_the_same_as_dig
    dig = need_program("dig")
    with_dnsmasq(*ZONE) do |address|
      host, port = address.split(":")
      QUESTIONS.each do |question|
        [[], ["+tcp"], ["+short"]].each do |options|
          theirs = run_program(dig, "@#{host}", "-p", port, *question.split, "+nocmd", "+nocookie", "+noadflag", *options).out
          assert_equal comparable(theirs), comparable(query("@#{address}", *question.split, *options)[1]), question
        end
      end
    end
  end

  def test_bytes_of_a_reply_do_not_reach_the_terminal
    data = Gyre::DNS::Record.new("one.test", 5, 1, 60, "\4\e[2J\2\xc3\xa9\0".b)
    server = scripted { |bytes| reply_to(bytes).tap { |reply| reply[7] = "\1" } + "\xc0\x0c\0\5\0\1\0\0\0\x3c\0\x9".b + data.data }
    assert_equal "\\027[2J.\\195\\169.\n", query("@#{server.address}", "one.test", "+short")[1]
  end

  def test_our_own_server_over_tls_and_https
    Dir.mktmpdir do |folder|
      certificates = GyreTest::Certificates.new(folder)
      cert, key = certificates.issue("server")
      serve("tls://127.0.0.1:0?cert=#{cert}&key=#{key}", rules: proc { otherwise { |transaction| transaction.respond!("192.0.2.1") } }) do |server|
        bind = "ssl://127.0.0.1:0?cert=#{cert}&key=#{key}"
        web = Gyre::Web::Server.new(Gyre::DNS::HTTPS.new(server), bind: bind, out: StringIO.new, signals: false).start
        { "+tls" => server.port, "+https" => web.endpoints.first.port }.each do |word, port|
          assert_equal [0, "192.0.2.1\n", ""], query("one.test", "@127.0.0.1:#{port}", word, "+short", "--ca", certificates.authority), word
          assert_equal [1, ""], query("one.test", "@127.0.0.1:#{port}", word, "+short").first(2)
        end
      ensure
        web&.stop
        web&.wait
      end
    end
  end

  # kdig does so.
  def test_a_client_that_leaves_without_ending_tls_is_no_complaint
    Dir.mktmpdir do |folder|
      cert, key = GyreTest::Certificates.new(folder).issue("server")
      _, err = capture_io do
        serve("tls://127.0.0.1:0?cert=#{cert}&key=#{key}", rules: proc { otherwise { |transaction| transaction.respond!("192.0.2.1") } }) do |server|
          TCPSocket.open("127.0.0.1", server.port) do |tcp|
            tls = OpenSSL::SSL::SSLSocket.new(tcp).tap(&:connect)
            query = Gyre::DNS::Message.query("one.test", "A").encode
            tls.write([query.bytesize].pack("n") << query)
            assert_equal 2, tls.read(2).bytesize
            tcp.close_write
            tcp.read # until the server has seen it
          end
        end
      end
      refute_match(/close_notify/, err)
    end
  end

  def test_no_answer_is_a_failure
    status, out, err = query("one.test", "@127.0.0.1:#{free_port}")
    assert_equal [1, ""], [status, out]
    assert_match(/\Agyre dns query: udp:\S+: Connection refused\n\z/, err)
  end

  # Arguments => the complaint.
  MISTAKES = { [] => "a name is missing", %w[one.test NOTYPE] => "NOTYPE", %w[one.test A more] => "unexpected argument more",
               %w[one.test +nope] => "+nope", %w[one.test @dns.example] => "not a name server", %w[a..b @127.0.0.1] => "not a domain name" }.freeze

  def test_mistakes
    MISTAKES.each do |arguments, text|
      status, _, err = query(*arguments)
      assert_equal 2, status, arguments.inspect
      assert_includes err, text
    end
  end

  def test_data_of_unknown_types_is_printed_in_hexadecimal_digits
    server = scripted do |bytes|
      Gyre::DNS::Message.parse(bytes).then do |message|
        record = Gyre::DNS::Record.new("one.test", 65_280, 1, 60, "\x01\xab".b)
        Gyre::DNS::Message.new(message.id, Gyre::DNS::Message::QR, questions: message.questions, sections: [[record], [], []]).encode
      end
    end
    assert_equal [0, "\\# 2 01AB\n", ""], query("one.test", "TYPE65280", "@#{server.address}", "+short")
  end

  private

  def query(*arguments)
    out, err = StringIO.new, StringIO.new
    [Gyre::CLI.run("gyre dns query", Gyre::CLI::DNS::Query.new(out: out, err: err), arguments, out: out, err: err), out.string, err.string]
  end

  # Without what differs each time: dnsmasq also turns the order of addresses.
  def comparable(text)
    text.gsub(/id: \d+/, "id:").sub(/^;; Got answer:\n/, "").gsub(/[ \t]+/, " ").sub(/\A\n+/, "").lines
        .grep_v(/^;; (?:Query time|SERVER|WHEN|MSG SIZE|WARNING)|^\n/).map(&:rstrip).sort
  end
end
