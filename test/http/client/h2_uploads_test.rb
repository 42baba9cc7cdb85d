# frozen_string_literal: true

# Bodies of requests over HTTP/2, against a scripted server: interim and early responses, uploads
# that end in their middle.

require "test_helper"
require "gyre/http/client"
require "http/client/h2_peer"

if GyreTest::H2Peer::AVAILABLE
  class H2UploadsTest < Minitest::Test
    include GyreTest::H2Peer

    H2 = GyreTest::H2
    WIDE = { initial_window_size: H2::WINDOW_MOST }.freeze
    LONG = ("x" * 64_000_000).freeze # more than sockets hold

    # libnghttp2 has begun a DATA frame of the body when it goes.
    def test_a_whole_body_may_go_in_the_middle_of_its_upload
      gate = Queue.new
      early = false
      script = lambda do |peer|
        peer.obliging = false
        peer.write(H2.window_update(0, H2::WINDOW_MOST - H2::WINDOW))
        2.times do
          id = peer.wait_frame(:headers).stream
          gate.pop
          respond(peer, id, "no", status: "413") if early
          peer.wait("a reset") { peer.frames.any? { |frame| frame.type == :rst_stream && frame.stream == id } }
          sent = peer.frames.select { |frame| frame.stream == id }
          refute sent.any?(&:end_stream?), "a cut body is marked as whole"
        end
        respond(peer, peer.wait_frame(:headers).stream)
        peer.failure
      end
      scripted(script, settings: WIDE) do |connection, task|
        stopped = task.async { connection.request("POST", "/", HOST, LONG, nil) }
        eventually { connection.transport.unsent_bytes.positive? }
        stopped.stop
        eventually { connection.idle? }
        gate << (early = true)
        refused = task.async { connection.request("POST", "/", HOST, LONG, nil) }
        gate << true
        assert_equal [413, "no"], refused.wait.then { |exchange| [exchange.status, body_of(exchange)] }
        assert_equal "hello", body_of(get(connection))
      end
    end

    def test_a_complete_response_ends_an_upload_without_marking_it_whole
      responded = Queue.new
      script = lambda do |peer|
        id = peer.wait_frame(:headers).stream
        respond(peer, id, "stored")
        responded << true
        assert_equal :cancel, peer.wait_frame(:rst_stream).error
        refute peer.frames.any? { |frame| frame.stream == id && frame.end_stream? }
        peer.failure
      end
      scripted(script) do |connection, task|
        pieces = Enumerator.new { |out| (out << "one") && responded.pop && loop { (out << "more") && task.yield } }
        exchange = connection.request("POST", "/", HOST, pieces, nil)
        assert_equal [200, "stored"], [exchange.status, body_of(exchange)]
      end
    end

    def test_a_refusal_ends_an_upload_before_its_body_is_complete
      refused = Queue.new
      stopped = Queue.new
      script = lambda do |peer|
        id = peer.wait_frame(:headers).stream
        peer.write(H2.headers(id, [%w[:status 413]], end_stream: false))
        refused << true
        peer.write(H2.data(id, "no")) if stopped.pop
        peer.failure
      end
      scripted(script) do |connection, task|
        pieces = Enumerator.new { |out| (out << "one") && refused.pop && loop { (out << "more") && task.yield } }
        exchange = connection.request("POST", "/", HOST, pieces, nil)
        stopped << true
        assert_equal [413, "no"], [exchange.status, body_of(exchange)]
      end
    end

    def test_interim_responses_are_told_while_the_upload_goes_on
      told = Queue.new
      script = lambda do |peer|
        id = peer.wait_frame(:headers).stream
        peer.write(H2.headers(id, [%w[:status 103], %w[link </a>]], end_stream: false))
        told << true
        peer.wait("the body") { peer.frames.any?(&:end_stream?) }
        assert_equal "onetwothree", peer.frames.select { |frame| frame.type == :data }.map(&:content).join
        respond(peer, id)
        peer.failure
      end
      scripted(script) do |connection|
        hints = []
        pieces = Enumerator.new do |out|
          out << "one"
          told.pop
          %w[two three].each { |piece| out << piece }
        end
        exchange = connection.request("POST", "/", HOST, pieces, nil) { |*hint| hints << hint }
        assert_equal [[[103, { "link" => "</a>" }]], "hello"], [hints, body_of(exchange)]
      end
    end

    def test_a_body_waits_for_the_interim_response_that_it_expects
      script = lambda do |peer|
        2.times do
          id = peer.wait_frame(:headers).stream
          peer.synchronize
          refute peer.frames.any? { |frame| frame.type == :data && frame.stream == id }
          peer.write(H2.headers(id, [%w[:status 100]], end_stream: false))
          peer.wait("the body") { peer.frames.any? { |frame| frame.stream == id && frame.end_stream? } }
          respond(peer, id)
        end
        peer.failure
      end
      scripted(script) do |connection|
        headers = { **HOST, "expect" => "100-continue" }
        ["body", %w[bo dy]].each { |body| assert_equal "hello", body_of(connection.request("POST", "/", headers, body, nil)) }
      end
    end

    def test_the_requests_time_counts_between_pieces
      scripted(->(peer) { peer.failure }) do |connection|
        endless = Enumerator.new { |out| loop { (out << "") && sleep(0.001) } }
        error = assert_raises(Gyre::TimeoutError) { connection.request("POST", "/", HOST, endless, Gyre::Clock.now + 0.05) }
        assert_match(/timeout_s/, error.message)
      end
    end
  end
end
