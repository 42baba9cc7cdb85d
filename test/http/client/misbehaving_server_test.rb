# frozen_string_literal: true

require "test_helper"
require "gyre/http/client"
require "http/client/scripted_server"
require "support/openssl_peer"
require "support/transports"

# A server that misbehaves by seed, over HTTP/1 and HTTP/2, plain and over TLS, whose records, such
# as tickets, come in parts and late: every call ends in time, with the right answer or an error of
# the client; no POST is processed twice; afterwards no place of the pool is taken. ROUNDS=1000
# gives it more time.
class HTTPClientMisbehavingServerTest < Minitest::Test
  include GyreTest::ScriptedServer

  H2 = GyreTest::H2
  ROUNDS = Integer(ENV.fetch("ROUNDS", "2"))
  TASKS = 8
  LIMIT_S = 0.5 # timeout_s of each call
  PATIENCE_S = 60 # on a machine that stands still
  HELLO = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
  REFUSAL = "HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\nno"
  ANSWERS = [[200, "hello"], [503, "no"]].freeze
  ALPN = { http1: "http/1.1", http2: "h2" }.freeze
  ACTS = %i[answer answer answer drip cut silence early interim reset leave].freeze
  H2_ACTS = %i[answer answer answer drip cut silence early interim rst refuse goaway].freeze

  ROUNDS.times do |round|
    %i[http1 http2].product([false, true]) do |protocol, tls|
      define_method(:"test_#{protocol}#{"_over_tls" if tls}_#{round}") { storm(round, protocol, tls) }
    end
  end

  private

  def storm(round, protocol, tls)
    seed = Minitest.seed + round
    posts = Queue.new
    number = 0
    contexts = contexts_for(protocol) if tls
    script = lambda do |peer|
      random = Random.new(seed + (number += 1))
      tls ? secured(peer, contexts, random) { |secure| send(protocol, secure, random, posts) } : send(protocol, peer, random, posts)
    end
    scripted(script) do |server|
      url, context = tls ? [server.url.sub("http", "https"), Gyre::TLS.client(verify: false, alpn: [ALPN[protocol]])] : server.url
      client = Gyre::HTTP::Client.new(url, proxy: nil, tls: context, http2: protocol == :http2, timeout_s: LIMIT_S, connections_limit: 4)
      [->(&block) { Gyre.run { |task| Array.new(TASKS) { |index| task.async { block.call(index) } }.each(&:wait) } },
       ->(&block) { Array.new(TASKS) { |index| Thread.new { block.call(index) } }.each(&:join) }].each_with_index do |way, turn|
        way.call { |index| 4.times { |call| ask(client, Random.new(seed + index), "#{turn}.#{index}.#{call}", seed) } }
      end
      client.close
      pools = client.instance_variable_get(:@homes).values.flat_map(&:pools)
      eventually(what: "seed #{seed}: a whole pool") { GC.start || pools.all? { |pool| pool.open.empty? } }
    end
    twice = Array.new(posts.size) { posts.pop }.tally.select { |_, times| times > 1 }
    assert_empty twice, "seed #{seed}"
  end

  def ask(client, random, name, seed)
    from_s = monotonic_s
    bodies = [nil, name, [name], StringIO.new(name), Enumerator.new { |out| name.each_char { |char| out << char } }]
    body = bodies.sample(random: random)
    response = body ? client.post("/", body) : client.get("/")
    assert_includes ANSWERS, [response.status, response.body], "seed #{seed}"
  rescue Gyre::HTTP::Client::Error
    nil
  ensure
    assert_operator monotonic_s - from_s, :<, PATIENCE_S, "seed #{seed}"
  end

  def contexts_for(protocol)
    certificate, key = GyreTest::Transports.identity("server")
    [OpenSSL::SSL::TLS1_2_VERSION, nil, nil].map do |version|
      GyreTest::OpenSSLPeer.server(cert: certificate, key: key) do |settings|
        settings.max_version = version if version
        settings.alpn_select_cb = ->(_) { ALPN[protocol] }
      end
    end
  end

  # Yields a peer over TLS. A relay cuts its bytes by seed.
  def secured(peer, contexts, random)
    near, far = peer.pair
    seed = random.rand(1 << 30)
    up = Thread.new { peer.copy_to(far) }
    down = Thread.new { trickle(far, peer, Random.new(seed)) }
    socket = OpenSSL::SSL::SSLSocket.new(near, contexts.sample(random: random)).accept
    yield peer.over(socket)
    socket.close if random.rand(2).zero? # with a close_notify
  rescue OpenSSL::SSL::SSLError
    nil # the client has closed
  ensure
    near&.close
    down&.join # when all is passed on
    up&.kill&.join
  end

  # Passes bytes on in pieces of random sizes at random times.
  def trickle(from, peer, random)
    while (bytes = from.readpartial(16_384))
      until bytes.empty?
        sleep(random.rand / 200) if random.rand(4).zero?
        peer.write(bytes.slice!(0, 1 + random.rand([40, 4000].sample(random: random))))
      end
    end
  rescue EOFError
    end_of(peer)
  rescue IOError, SystemCallError
    nil # one of both has closed
  end

  def end_of(peer)
    peer.end_writing
  rescue IOError, SystemCallError
    nil # it has closed
  end

  # --- HTTP/1 ---

  def http1(peer, random, posts)
    while (head = peer.head)
      act = ACTS.sample(random: random)
      peer.write(REFUSAL) && return if act == :early
      peer.write("HTTP/1.1 103 Early Hints\r\n\r\n") if act == :interim
      body = body_of(peer, head) or return # cut
      posts << body unless body.empty?
      case act
      when :answer, :interim then peer.write(HELLO)
      when :drip then HELLO.each_char { |byte| peer.write(byte) }
      when :cut then return peer.write(HELLO[0, random.rand(HELLO.bytesize)])
      when :silence then return peer.read(1)
      when :reset then return peer.reset
      else return peer.write(HELLO)
      end
    end
  end

  # Returns nil if the body is cut.
  def body_of(peer, head)
    unless head.include?("chunked")
      length = head[/^content-length: (\d+)/, 1].to_i
      body = peer.read(length)
      return body&.bytesize == length ? body : nil
    end
    body = +""
    while (size = (peer.line or return).to_i(16)).positive?
      body << (peer.read(size + 2) or return)[0, size]
    end
    peer.line && body
  end

  # --- HTTP/2 ---

  def http2(peer, random, posts)
    return unless peer.read(H2::PREFACE.bytesize)

    narrow = random.rand(4).zero?
    peer.write(H2.settings(**(narrow ? { initial_window_size: 1 } : {})))
    bodies = Hash.new { |hash, id| hash[id] = +"" }
    while (frame = peer.frame)
      case frame.type
      when :settings then peer.write(H2.settings(ack: true)) unless frame.ack?
      when :ping then peer.write(H2.ping(frame.payload, ack: true)) unless frame.ack?
      when :data
        bodies[frame.stream] << frame.content
        peer.write(H2.window_update(frame.stream, 1)) if narrow && !frame.end_stream?
      end
      return if frame.end_stream? && act2(peer, random, frame.stream, bodies[frame.stream], posts) == :left
    end
  end

  def act2(peer, random, id, body, posts)
    act = H2_ACTS.sample(random: random)
    return peer.write(H2.rst_stream(id, :refused_stream)) if act == :refuse
    return peer.write(H2.goaway(id - 2)) && :left if act == :goaway

    posts << body unless body.empty?
    answer = H2.headers(id, [%w[:status 200]], end_stream: false) + H2.data(id, "hello")
    case act
    when :drip then answer.each_char { |byte| peer.write(byte) }
    when :cut then peer.write(answer[0, random.rand(answer.bytesize)]) && :left
    when :silence then true
    when :early then peer.write(H2.headers(id, [%w[:status 503]], end_stream: false), H2.data(id, "no"))
    when :interim then peer.write(H2.headers(id, [%w[:status 103]], end_stream: false), answer)
    when :rst then peer.write(H2.rst_stream(id, :internal_error))
    else peer.write(answer)
    end
  end
end
