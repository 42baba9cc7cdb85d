# frozen_string_literal: true

# The table of HTTP/2's cases (cases.rb), and the client that sends them, against servers of others:
# a case that fails on all of them is wrong.

require "test_helper"
require "support/h2_client"
require "support/h2_peers"
require "http/h2/cases"

class H2PeersTest < Minitest::Test
  def test_the_table_is_whole
    assert_equal [44, 97, 8], (%w[generic http2 hpack].map { |group| H2Cases.all.count { |one| one.section.start_with?(group) } })
    assert_equal H2Cases.all.size, H2Cases.all.map { |one| [one.section, one.name] }.uniq.size
  end

  # nghttp2 ignores it (RFC 9113, section 5.1.1, wants a connection error); nginx does not.
  LOWER = ["http2/5.1.1", "a stream with a lower number than the one before"].freeze

  # nghttp2 resets the stream.
  WIDER = ["http2/6.9.2", "SETTINGS_INITIAL_WINDOW_SIZE that widens an open stream beyond 2^31-1"].freeze

  def test_nghttpd_passes_all_cases_but_two
    failures = []
    with_peer(:nghttpd) { |peer| failures = cases { |one| ![LOWER, WIDER].include?(one) }.filter_map { |one| failure(peer, one) } }
    assert_empty failures
  end

  def test_nginx_passes_the_other_one
    with_peer(:nginx) { |peer| assert_equal([nil], cases { |one| one == LOWER }.map { |one| failure(peer, one) }) }
  end

  def test_requests_and_responses_with_bodies_over_plain_sockets_and_tls
    with_peer(:nghttpd) do |peer|
      %i[plain tls].each do |way|
        client = GyreTest::H2Client.new(self, peer.connect(way))
        3.times { assert_equal [200, "a page of a server\n"], client.get("GET /index.html").to_a.values_at(0, 2) }
        response = client.post("/", "x" * 300_000, trailers: [%w[a b]])
        assert_equal [200, "text/html"], [response.status, response["content-type"]]
        assert_equal 404, client.get("GET /missing").status
        client.close
      end
    end
  end

  private

  def with_peer(kind)
    peer = GyreTest::H2Peers.new(kind, need_program(kind.to_s))
    yield peer
  ensure
    peer&.close
  end

  def cases
    H2Cases.all.select { |one| yield [one.section, one.name] }
  end

  def failure(peer, one)
    client = GyreTest::H2Client.new(self, peer.connect(:plain), settings: nil)
    H2Cases::Run.new(client, one, within_s: GyreTest::H2Client::PATIENCE_S).failure
  ensure
    client&.close
  end
end
