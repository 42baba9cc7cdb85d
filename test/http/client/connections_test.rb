# frozen_string_literal: true

require "test_helper"
require "gyre/http/client"
require "objspace"
require "http/client/scripted_server"
require "support/certificates"
require "tempfile"
require "time"
require "tmpdir"

# How the client uses connections: reuse, stale ones, retries, limits of time, forks, forgotten
# responses, proxies, addresses.
class HTTPClientConnectionsTest < Minitest::Test
  include GyreTest::ScriptedServer

  HELLO = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
  Errors = Gyre::HTTP::Client

  # Time that runs faster in one thread.
  module FastClock
    def now = super * (Thread.current[:clock_factor] || 1)
  end

  # --- stale connections, retries ---

  def test_a_kept_connection_that_the_server_closed_is_replaced_for_any_method
    scripted(->(peer) { peer.head && peer.write(HELLO) && peer.close }) do |server|
      client = make(server)
      Gyre.run do
        5.times do
          assert_equal "hello", client.post("/", "body").body
          eventually { server.closed == server.accepted }
        end
      end
      assert_equal 5, server.accepted
    end
  end

  def test_a_loop_that_computes_sees_what_the_server_has_done_meanwhile
    ends = [->(peer) { peer.close }, ->(peer) { peer.write("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil") }]
    ends.each do |ending|
      ended = false
      scripted(->(peer) { peer.head && peer.write(HELLO) && ending.call(peer) && (ended = true) && peer.head }) do |server|
        client = make(server)
        Gyre.run do
          2.times do
            assert_equal "hello", client.post("/", "body").body
            Thread.pass until ended
            ended = false
          end
        end
      end
    end
  end

  def test_a_server_that_closes_after_each_response_costs_a_safe_request_nothing
    scripted(->(peer) { peer.head && peer.write(HELLO) && peer.close }) do |server|
      client = make(server)
      Gyre.run { 50.times { assert_equal "hello", client.get("/").body } }
      assert_equal 50, server.accepted
    end
  end

  def test_an_idempotent_request_is_repeated_if_a_kept_connection_ends_without_a_response
    scripted(->(peer) { peer.head && peer.write(HELLO) && peer.head && peer.close }) do |server|
      client = make(server)
      assert_equal %w[hello hello], Array.new(2) { client.get("/").body }
      assert_equal 2, server.accepted
    end
  end

  def test_a_post_is_not_repeated_after_it_was_sent
    scripted(->(peer) { peer.head && peer.write(HELLO) && peer.head && peer.close }) do |server|
      client = make(server)
      client.get("/")
      error = assert_raises(Errors::ConnectionError) { client.post("/pay?card=1", "x") }
      assert_equal [:send, "POST", "#{server.url}/pay"], [error.phase, error.request_method, error.url]
      assert_match(%r{\APOST #{server.url}/pay: send: tcp://\S+ closed the connection before its response}, error.message)
    end
  end

  def test_an_error_of_a_server_without_tls_names_the_other_scheme
    scripted(->(peer) { peer.write("HTTP/1.1 400 Bad Request\r\n\r\n") && peer.finish }) do |server|
      client = keep(Gyre::HTTP::Client.new(server.url.sub("http:", "https:"), proxy: nil))
      error = assert_raises(Errors::ConnectionError) { client.get("/") }
      assert_match(%r{wrong version number. If the server has no TLS, write http://}, error.message)
    end
  end

  def test_a_new_connection_that_ends_without_a_response_is_not_tried_again
    scripted(->(peer) { peer.head && peer.close }) do |server|
      assert_raises(Errors::ConnectionError) { make(server).get("/") }
      assert_equal 1, server.accepted
    end
  end

  def test_bytes_that_were_not_asked_for_end_the_connection
    scripted(->(peer) { peer.head && peer.write("#{HELLO}HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil") && peer.head }) do |server|
      client = make(server)
      assert_equal %w[hello hello], Array.new(2) { client.get("/").body }
      assert_equal 2, server.accepted
    end
  end

  def test_a_response_before_the_body_is_over_counts
    refusal = "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno"
    scripted(->(peer) { peer.head && peer.write(refusal) && peer.finish }) do |server|
      pieces = Enumerator.new { |yielder| 10_000.times { yielder << ("x" * 10_000) } }
      response = make(server).post("/", pieces)
      assert_equal [413, "no"], [response.status, response.body]
    end
  end

  # Otherwise the server would take the next request for the rest of this one's body.
  def test_a_connection_with_an_unfinished_request_takes_no_other
    responded = Queue.new
    respond = ->(peer, head) { peer.write(head.start_with?("GET") ? HELLO : "HTTP/1.1 413 No\r\nContent-Length: 0\r\n\r\n") && responded << head }
    pieces = Enumerator.new { |yielder| (yielder << "one") && responded.pop && (yielder << "two") }
    [{ body: pieces }, { body: StringIO.new("body"), headers: { "expect" => "100-continue" } }].each do |options|
      scripted(->(peer) { (head = peer.head) && respond.call(peer, head) && peer.head && peer.write("no response") }) do |server|
        client = make(server)
        assert_equal [413, "hello"], [client.request("POST", "/", **options).status, client.get("/").body]
        assert_equal 2, server.accepted
      end
    end
  end

  def test_a_body_that_differs_from_its_length_does_not_become_another_request
    scripted(->(peer) { peer.write(HELLO) while peer.head && peer.read(3) }) do |server|
      client = make(server)
      [["abc", "GET /evil HTTP/1.1\r\n\r\n"], ["ab"]].each do |pieces|
        error = assert_raises(ArgumentError) { client.post("/", pieces.each, headers: { "content-length" => "3" }) }
        assert_match(/(longer|shorter) than its content-length/, error.message)
      end
      assert_equal "hello", client.post("/", "abc", headers: { "content-length" => "99" }).body
      assert_match(/^content-length: 3\r$/, server.last_head)
    end
  end

  def test_a_file_that_grows_or_shrinks_while_it_is_sent
    Tempfile.create("body") do |file|
      file.write("abc")
      file.rewind
      multipart = Gyre::HTTP::Client::Multipart.new("file" => file)
      length = multipart.size.to_s
      File.write(file.path, "longer than before")
      scripted(->(peer) { peer.head && peer.finish }) do |server|
        request = -> { make(server).post("/", multipart, headers: { "content-length" => length }) }
        assert_match(/longer/, assert_raises(ArgumentError, &request).message)
        assert_predicate multipart, :again
        File.truncate(file.path, 1)
        assert_match(/shorter/, assert_raises(ArgumentError, &request).message)
      end
    end
  end

  def test_a_switch_of_protocols_that_was_not_asked_for_is_an_error
    scripted(->(peer) { peer.head && peer.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n") && peer.finish }) do |server|
      client = make(server, connections_limit: 1)
      2.times { assert_match(/unasked/, assert_raises(Errors::ProtocolError) { client.get("/") }.message) }
      eventually { server.closed == 2 }
    end
  end

  # --- bodies ---

  def test_each_cut_of_a_response_is_an_error_with_its_phase
    whole = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    cuts = (0...whole.bytesize).to_a
    scripted(->(peer) { peer.head && peer.write(whole.byteslice(0, cuts.shift.to_i)) && peer.close }) do |server|
      client = make(server)
      Gyre.run do
        whole.bytesize.times do |at|
          error = assert_raises(Errors::ConnectionError) { client.get("/") }
          assert_equal at < whole.index("5\r\n") ? :send : :body, error.phase, "cut after #{at} bytes"
        end
      end
    end
  end

  def test_a_short_piece_of_a_long_body_holds_little_memory
    gate = Queue.new
    head = "HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n"
    scripted(->(peer) { peer.head && peer.write(head) && gate.pop && peer.write("short") && peer.finish }) do |server|
      make(server).get("/") do |response|
        gate << true
        piece = response.each.next
        assert_equal "short", piece
        assert_operator ObjectSpace.memsize_of(piece), :<, 1000
      end
    end
  end

  def test_a_long_body_comes_in_long_pieces
    sizes = []
    scripted(->(peer) { peer.head && peer.write("HTTP/1.1 200 OK\r\nContent-Length: 20000000\r\n\r\n#{"x" * 20_000_000}") }) do |server|
      make(server).get("/") { |response| response.each { |piece| sizes << piece.bytesize } }
    end
    assert_equal 20_000_000, sizes.sum
    assert_operator sizes.max, :<=, 262_144
  end

  def test_expect_waits_for_the_interim_response
    bodies = Queue.new
    scripted(lambda { |peer|
      head = peer.head
      peer.write(head.include?("/no") ? "HTTP/1.1 417 No\r\nContent-Length: 0\r\n\r\n" : "HTTP/1.1 100 Continue\r\n\r\n")
      next if head.include?("/no")

      bodies << peer.read(4)
      peer.write(HELLO)
    }) do |server|
      client = make(server)
      options = { body: StringIO.new("body"), headers: { "expect" => "100-continue" } }
      assert_equal 200, client.request("PUT", "/yes", **options).status
      assert_equal "body", bodies.pop
      assert_equal 417, client.request("PUT", "/no", **options).status
    end
  end

  # --- Retry-After ---

  def test_retry_after_is_waited_for_where_it_is_asked_for_and_safe
    later = ->(status, seconds) { "HTTP/1.1 #{status} Later\r\nRetry-After: #{seconds}\r\nContent-Length: 2\r\n\r\nno" }
    { "/now" => later[503, 0], "/date" => later[429, Time.now.httpdate], "/long" => later[503, 60] }.each do |path, response|
      seen = 0
      scripted(->(peer) { peer.write((seen += 1).even? ? HELLO : response) while peer.head }) do |server|
        waits = path == "/long" ? response[/\d{3}/].to_i : 200
        assert_equal response[/ (\d+)/, 1].to_i, make(server).get(path).status
        seen = 0
        assert_equal waits, make(server, retry_after_s: 5).get(path).status
        seen = 0
        assert_equal response[/ (\d+)/, 1].to_i, make(server, retry_after_s: 5).post(path).status
        seen = 0
        assert_equal response[/ (\d+)/, 1].to_i, make(server, retry_after_s: 5, retries_limit: 0).get(path).status
      end
    end
  end

  def test_retry_after_ends_at_the_limits
    later = ->(head) { "HTTP/1.1 503 Later\r\nRetry-After: #{head.include?("/long") ? 100 : 1}\r\nContent-Length: 0\r\n\r\n" }
    scripted(->(peer) { while (head = peer.head) do peer.write(later[head]) end }) do |server|
      assert_equal 503, make(server, retry_after_s: 600).get("/long", timeout_s: 60).status
      assert_equal 1, server.heads
      assert_equal 503, make(server, retry_after_s: 60, retries_limit: 1).get("/").status
      assert_equal 3, server.heads
    end
  end

  def test_early_hints_reach_the_caller
    scripted(->(peer) { peer.head && peer.write("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n#{HELLO}") }) do |server|
      hints = []
      make(server).get("/", interim: ->(status, headers) { hints << [status, headers] })
      assert_equal [[103, { "link" => "</a>" }]], hints
    end
  end

  # --- limits of time ---

  def test_the_error_of_a_wrong_address_shows_it_without_credentials_and_query
    { "shop.example/a?token=1" => '"shop.example/a"', "ftp://ada:se/c?ret@shop.example/a" => '"…@shop.example/a"' }.each do |text, shown|
      error = assert_raises(ArgumentError) { Gyre::HTTP.get(text) }
      assert_equal "#{shown} is not an HTTP address: write http://host/path or https://host/path", error.message
    end
  end

  def test_a_request_and_a_client_know_the_same_names_of_the_whole_time
    scripted(->(peer) { peer.head && sleep }) do |server|
      [-> { make(server, timeout: 0.05).get("/") }, -> { make(server).get("/", timeout: 0.05) }].each do |request|
        assert_match(/\(timeout_s\)\z/, assert_raises(Errors::TimeoutError, &request).message)
      end
    end
  end

  def test_each_phase_has_its_limit_which_the_error_names
    scripted(->(peer) { peer.head && sleep }) do |server|
      %i[head_timeout_s timeout_s].each do |limit|
        client = make(server, limit => 0.05)
        # More than once only where the machine stands still.
        eventually { assert_raises(Errors::TimeoutError) { client.get("/") }.message.match?(/send: .*\(#{limit}\)\z/) }
      end
    end
    scripted(->(peer) { peer.head && peer.write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhel") && sleep }) do |server|
      { read_timeout_s: 0.05, timeout_s: 0.2 }.each do |limit, value|
        client = make(server, limit => value)
        Gyre.run { eventually { assert_raises(Errors::TimeoutError) { client.get("/") }.message.match?(/body: .*\(#{limit}\)\z/) } }
      end
    end
  end

  def test_a_head_that_drips_ends_at_its_limit
    scripted(->(peer) { peer.head && peer.write("HTTP/1.1 200 OK\r\n") && loop { peer.write("a: b\r\n") && sleep(0.01) } }) do |server|
      assert_raises(Errors::TimeoutError) { make(server, head_timeout_s: 0.2, header_count_limit: 256).get("/") }
    end
  end

  def test_a_body_that_drips_is_slower_than_the_least_rate
    scripted(->(peer) { peer.head && peer.write("HTTP/1.1 200 OK\r\n\r\n") && loop { peer.write("x") && sleep(0.002) } }) do |server|
      Gyre::Clock.singleton_class.prepend(FastClock)
      error = assert_raises(Errors::TimeoutError) do
        make(server, body_rate_bytes_limit: 1_000_000).get("/") { |response| (Thread.current[:clock_factor] = 1000) && response.body }
      end
      assert_match(/slower than body_rate_bytes_limit/, error.message)
    ensure
      Thread.current[:clock_factor] = nil
    end
  end

  def test_a_full_pool_makes_callers_wait_and_then_fails
    scripted(->(peer) { peer.head && sleep }) do |server|
      client = make(server, connections_limit: 1, pool_timeout_s: 0.05)
      Gyre.run do |task|
        first = task.async { client.get("/") }
        task.yield until server.heads == 1
        error = assert_raises(Errors::TimeoutError) { client.get("/") }
        assert_equal :pool, error.phase
        assert_match(/all 1 connections are in use: raise connections_limit/, error.message)
        first.stop
      end
    end
  end

  # Nothing is known of the server yet, and with TLS one connection might carry all.
  def test_a_dead_server_is_tried_once_for_all_that_wait_for_it
    [[{}, ->(peer) { peer.close }, Errors::ConnectionError, /connect: .*(reset|closed)/],
     [{ connect_timeout_s: 0.2 }, ->(peer) { peer.read(1_000_000) }, Errors::TimeoutError, /connect: .*TLS/]].each do |limits, script, kind, message|
      gate = Queue.new
      scripted(->(peer) { gate.pop || script.call(peer) }) do |server|
        client = keep(Gyre::HTTP::Client.new(server.url.sub("http", "https"), proxy: nil, tls: Gyre::TLS.client(verify: false), **limits))
        Gyre.run do |task|
          requests = Array.new(10) { task.async { client.get("/") rescue $! } }
          task.yield until server.accepted == 1
          gate.close
          requests.map(&:wait).each do |error|
            assert_equal [kind, :connect], [error.class, error.phase]
            assert_match(message, error.message)
          end
        end
        assert_equal 1, server.accepted
      end
    end
  end

  def test_a_caller_that_leaves_while_it_connects_takes_no_other_along
    scripted(->(peer) { peer.read(1_000_000) }) do |server|
      client = keep(Gyre::HTTP::Client.new(server.url.sub("http", "https"), proxy: nil, tls: Gyre::TLS.client(verify: false), connect_timeout_s: 60))
      Gyre.run do |task|
        first = task.async { client.get("/") }
        eventually { server.accepted == 1 }
        second = task.async { client.get("/") }
        third = task.async { client.get("/", timeout_s: 0.05) rescue $! }
        assert_match(/connect: the connection that others have begun is not made yet/, third.wait.message)
        first.stop
        eventually { server.accepted == 2 }
        second.stop
      end
    end
  end

  def test_a_stopped_task_and_a_deadline_give_their_connections_back
    scripted(->(peer) { peer.head&.include?("/slow") ? sleep : peer.write(HELLO) }) do |server|
      client = make(server, connections_limit: 1, pool_timeout_s: 5)
      Gyre.run do |task|
        3.times do
          seen = server.heads
          slow = task.async { client.get("/slow") }
          task.yield until server.heads > seen
          slow.stop
          assert_raises(Gyre::TimeoutError) { Gyre.with_deadline(0.01) { client.get("/slow") } }
          assert_equal "hello", client.get("/").body
        end
      end
    end
  end

  def test_a_forgotten_response_gives_its_place_back
    scripted(->(peer) { peer.head && peer.write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhel") && peer.finish }) do |server|
      client = make(server, connections_limit: 1, pool_timeout_s: 10)
      Gyre.run do
        3.times do
          forget(client)
          GC.start
        end
      end
      eventually do
        GC.start
        client.close
        server.closed == 3
      end
    end
  end

  # --- processes, threads ---

  def test_another_thread_closes_a_response_that_is_being_read_and_its_failure_stays
    scripted(->(peer) { peer.head && peer.write("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nab") && peer.head }) do |server|
      client = make(server, connections_limit: 1)
      2.times do
        response = client.stream("GET", "/")
        begun = Queue.new
        reader = Thread.new { assert_raises(Errors::ConnectionError) { response.each { |piece| begun << piece } } }
        begun.pop
        Thread.pass until reader.stop?
        response.close
        assert_same reader.value, assert_raises(Errors::ConnectionError) { response.body }
      end
    end
  end

  def test_a_forked_child_uses_connections_of_its_own
    scripted(->(peer) { peer.write(HELLO) while peer.head }) do |server|
      client = make(server)
      client.get("/")
      child = fork do
        exit!(client.get("/").body == "hello" ? 0 : 1)
      end
      assert_predicate Process.wait2(child).last, :success?
      assert_equal "hello", client.get("/").body
      assert_equal 2, server.accepted
    end
  end

  def test_each_loop_has_its_own_pool
    scripted(->(peer) { peer.write(HELLO) while peer.head }) do |server|
      client = make(server)
      3.times { Gyre.run { 2.times { client.get("/") } } }
      assert_equal 3, server.accepted
      2.times { Thread.new { client.get("/") }.join }
      assert_equal 4, server.accepted
    end
  end

  # --- ways to a server ---

  def test_a_unix_socket
    Dir.mktmpdir("gyre") do |folder|
      path = File.join(folder, "socket")
      scripted(->(peer) { peer.write(HELLO) while peer.head }, UNIXServer.new(path)) do |server|
        client = keep(Gyre::HTTP::Client.new("http://service", socket: path))
        assert_equal "hello", client.get("/x").body
        assert_match(%r{\AGET /x HTTP/1.1\r\nhost: service\r\n}, server.last_head)
      end
    end
  end

  def test_a_proxy_gets_whole_addresses
    scripted(->(peer) { peer.write(HELLO) while peer.head }) do |server|
      client = keep(Gyre::HTTP::Client.new(proxy: server.url.sub("//", "//me:p%40ss@")))
      assert_equal "hello", client.get("http://example.test/x?y").body
      assert_match(%r{\AGET http://example.test/x\?y HTTP/1.1\r\nhost: example.test\r\nproxy-authorization: Basic bWU6cEBzcw==\r\n}, server.last_head)
    end
  end

  def test_an_error_tells_that_the_proxy_cannot_be_reached
    port = free_port
    error = assert_raises(Errors::ConnectionError) { keep(Gyre::HTTP::Client.new(proxy: "http://127.0.0.1:#{port}")).get("http://example.test/") }
    assert_equal "GET http://example.test/: connect: proxy: Connection refused - connect to tcp://127.0.0.1:#{port}", error.message
    assert_kind_of Errno::ECONNREFUSED, error.cause
  end

  def test_a_tunnel_that_the_proxy_refuses_is_an_error
    scripted(->(peer) { peer.head && peer.write("HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n") }) do |server|
      client = keep(Gyre::HTTP::Client.new(proxy: server.url.sub("//", "//me:secret@")))
      error = assert_raises(Errors::ConnectionError) { client.get("https://example.test/") }
      assert_equal :connect, error.phase
      assert_match(/refused the tunnel with 407/, error.message)
      refute_match(/secret/, error.message)
      assert_match(/\ACONNECT example.test:443 HTTP/, server.last_head)
    end
  end

  def test_private_addresses_are_refused_if_asked_for
    client = keep(Gyre::HTTP::Client.new(private_addresses: false, proxy: nil))
    %w[127.0.0.1 localhost 10.0.0.1 169.254.169.254 [::1] [::ffff:127.0.0.1] [fd00::1] 0.0.0.0 [::ffff:0:127.0.0.1]].each do |host|
      error = assert_raises(Errors::PrivateAddressError, host) { client.get("http://#{host}:1/") }
      assert_equal :connect, error.phase
    end
  end

  def test_wrong_addresses_and_proxies_are_argument_errors
    ["http://a|b/", "http://a\0b/"].each { |url| assert_raises(ArgumentError) { Gyre::HTTP.get(url) } }
    %i[query form].each do |name|
      error = assert_raises(ArgumentError) { Gyre::HTTP.post("http://127.0.0.1:1/", name => "a=b") }
      assert_equal "#{name}: must be a Hash or pairs, not String", error.message
    end
    %w[https://127.0.0.1:1 socks5://127.0.0.1:1 localhost:port 127.0.0.1:1:1].each do |proxy|
      assert_raises(ArgumentError, proxy) { keep(Gyre::HTTP::Client.new(proxy: proxy)).get("http://example.test/") }
    end
  end

  def test_a_refused_connection_reports_it
    port = free_port
    error = assert_raises(Errors::ConnectionError) { keep(Gyre::HTTP::Client.new(proxy: nil)).get("http://user:secret@127.0.0.1:#{port}/a?token=1") }
    assert_equal "GET http://127.0.0.1:#{port}/a: connect: Connection refused - connect to tcp://127.0.0.1:#{port}", error.message
    assert_kind_of Errno::ECONNREFUSED, error.cause
  end

  def test_credentials_do_not_follow_a_redirect_to_another_origin
    scripted(->(peer) { peer.write(HELLO) while peer.head }) do |other|
      scripted(->(peer) { peer.head && peer.write("HTTP/1.1 302 Found\r\nLocation: #{other.url}/\r\nContent-Length: 0\r\n\r\n") }) do |server|
        client = make(server, bearer: "secret", headers: { "x-a" => "1" })
        assert_equal "hello", client.get("/", headers: { "cookie" => "a=1" }).body
        assert_match(/authorization: Bearer secret/, server.last_head)
        refute_match(/secret|cookie/, other.last_head)
        assert_match(/x-a: 1/, other.last_head)
        client.get("#{other.url}/")
        refute_match(/secret/, other.last_head)
      end
    end
  end

  private

  def setup = @made = []
  def teardown = @made.each(&:close)
  def keep(client) = client.tap { @made << client }
  def make(server, **options) = keep(Gyre::HTTP::Client.new(server.url, proxy: nil, connect_timeout_s: 60, **options))

  # On another stack, which no later frame keeps alive.
  def forget(client) = Thread.new { nil }.join && Fiber.new(blocking: false) { client.stream("GET", "/") && nil }.resume
end
