# frozen_string_literal: true

# examples/dns_wikipedia.rb, with a stand-in for the site: summaries as TXT, many at once.
require "test_helper"
require "support/dns_serving"
require "gyre/web/server"
require "json"
require "stringio"

class DNSWikipediaTest < Minitest::Test
  include GyreTest::DNSServing

  PROGRAM = File.expand_path("../../examples/dns_wikipedia.rb", __dir__)
  Address = Struct.new(:port)
  COUNT = 50

  def test_summaries_come_as_text_and_wait_at_once
    with_site do |site|
      with_subprocess(*ruby_command(PROGRAM, "127.0.0.1:0", env: { "WIKIPEDIA" => site })) do |_, out|
        server = Address.new(out.gets.to_s[/udp:\/\/127\.0\.0\.1:(\d+)/, 1].to_i)
        texts = ask(server, "Ruby.wp", "TXT", edns: edns(4096)).answers[0].resource.strings
        assert_equal ["#{"ä" * 127}x", "y"].join.bytesize, texts.join.bytesize
        assert_equal "#{"ä" * 127}xy", texts.join.force_encoding("UTF-8")
        assert_equal [3, 2], %w[none.wp broken.wp].map { |name| ask(server, name, "TXT").rcode }
        at_once(server)
      end
    end
  end

  private

  # The site answers the last ones only when all have asked.
  def at_once(server)
    UDPSocket.open do |socket|
      socket.connect("127.0.0.1", server.port)
      COUNT.times { |id| socket.send(Gyre::DNS::Message.query("together#{id}.wp", "TXT", id: id).encode, 0) }
      ids = Array.new(COUNT) { (socket.wait_readable(30) or flunk) && socket.recv(2000).unpack1("n") }
      assert_equal (0...COUNT).to_a, ids.sort
    end
  end

  def with_site
    asked = 0
    all = Thread::Queue.new
    app = lambda do |env|
      case env["PATH_INFO"]
      when /none/ then next [404, {}, []]
      when /broken/ then next [200, {}, ["{"]]
      when /together/
        COUNT.times { all.push(true) } if (asked += 1) == COUNT
        all.pop
      end
      [200, { "content-type" => "application/json" }, [JSON.generate(extract: "#{"ä" * 127}xy")]]
    end
    web = Gyre::Web::Server.new(app, bind: "tcp://127.0.0.1:0", out: StringIO.new, signals: false).start
    yield web.urls.first
  ensure
    web&.stop
    web&.wait
  end
end
