# frozen_string_literal: true

# Tasks that use a client in every way, and leave in every way, over HTTP/1.1, TLS and HTTP/2:
# responses stay right, and in the end nothing is open. `rake test:churn:client` runs it
# (SECONDS=600).

require "test_helper"
require "gyre/http/client"
require "http/serving"

class HTTPClientChurnTest < Minitest::Test
  include GyreTest::HTTPServing

  SECONDS = Integer(ENV.fetch("SECONDS", "600"))
  TASKS = 50
  SAMPLES = 20 # of memory, with each protocol; the third quarter is compared with the last
  GROWTH = 1.05
  GROWTH_BYTES = (320 << 20) / SECONDS # a short run warms up
  APP = lambda do |env|
    case env["PATH_INFO"]
    when "/echo" then [200, {}, [env["rack.input"].read]]
    when "/big" then [200, {}, Enumerator.new { |out| 40.times { out << ("x" * 50_000) } }]
    when "/slow" then [200, {}, Enumerator.new { |out| loop { (out << "slow") && sleep(0.1) } }]
    when "/cut" then [200, { "content-length" => "100" }, ["short"]]
    else [204, {}, []]
    end
  end
  # Each returns nil, or raises one of the expected errors.
  ACTS = {
    whole: ->(client, random) { echo(client, bytes = "b" * random.rand(100_000), bytes) },
    pieces: ->(client, random) { echo(client, pieces = Array.new(9) { "p" * random.rand(30_000) }, pieces.join) },
    long: ->(client, _) { client.get("/big").body.bytesize == 2_000_000 || raise("a short body") },
    left: ->(client, _) { client.get("/big") { |response| response.each.next } },
    forgotten: ->(client, _) { client.stream("GET", "/big") && nil },
    late: ->(client, _) { client.get("/slow", timeout_s: 0.05) },
    deadline: ->(client, _) { Gyre.with_deadline(0.03) { client.get("/slow").body } },
    stopped: ->(client, _) { Gyre::Task.current.async { client.get("/slow").body rescue nil }.tap { sleep 0.01 }.stop },
    source: ->(client, _) { client.post("/echo", Enumerator.new { |out| (out << "one") && raise(KeyError) }) },
    cut: ->(client, _) { client.get("/cut").body },
    none: ->(client, _) { client.get("/none").body },
    closed: ->(client, random) { random.rand(20).zero? && client.close }
  }.freeze
  EXPECTED = [Gyre::HTTP::Client::Error, Gyre::TimeoutError, KeyError].freeze

  def self.echo(client, body, expected)
    response = client.post("/echo", body)
    return if response.body == expected

    raise "#{response.protocol} #{response.status}: #{response.body.bytesize} bytes #{response.body[0, 20]} in place of #{expected.bytesize}"
  end

  def test_nothing_is_left_open_and_nothing_grows
    @counts = Hash.new(0)
    @resident = []
    { plain: {}, tls: { identity: identity([]) }, h2: { identity: identity(%w[h2 http/1.1]) } }.each_value do |options|
      @tls = options.any?
      serve(APP, **options) { |served| churn(served) }
    end
    puts "churn: #{@counts.sort.map { |name, count| "#{count} #{name}" }.join(", ")}; MB: #{@resident.map { |bytes| (bytes / 1e6).round }.join(" ")}"
  end

  private

  def tls? = @tls
  def identity(alpn) = { **GyreTest::HTTPServing.identity, alpn: alpn }

  def churn(served)
    client = Gyre::HTTP::Client.new("http#{"s" if tls?}://localhost:#{served.port}", proxy: nil, connections_limit: 20,
      tls: (Gyre::TLS.client(verify: false, alpn: %w[h2 http/1.1]) if tls?))
    random = Random.new(Minitest.seed)
    ends_s = monotonic_s + (SECONDS / 3.0)
    Gyre.run do |task|
      Array.new(TASKS) { task.async { act(client, random) while monotonic_s < ends_s } }
      assert_operator growth(ends_s), :<=, 0
    end
    4.times { GC.start }
    client.close
    GC.start
    client.get("/none")
    client.close
    close_what_the_collector_sees
    served.errors.clear # of /cut
    eventually(within_s: 30) { served.stats[:connections].zero? }
    assert_equal [0], client.instance_variable_get(:@homes).values.flat_map(&:pools).map { |pool| pool.open.size }.uniq
  end

  # The collector reads stacks, where the address of a forgotten response may lie.
  def close_what_the_collector_sees
    seen = ObjectSpace.each_object(Gyre::HTTP::Client::Response).select(&:connection)
    assert_operator seen.size, :<=, 5
    seen.each(&:close)
  end

  # Returns the growth in bytes beyond what is allowed.
  def growth(ends_s)
    resident = Array.new(SAMPLES) do
      sleep [(ends_s - monotonic_s) / SAMPLES, SECONDS / 3.0 / SAMPLES].min
      Integer(File.read("/proc/self/statm").split[1]) * 4096
    end
    former, latter = resident.last(SAMPLES / 2).each_slice(SAMPLES / 4).map { |some| some.sum / some.size }
    @resident << latter
    latter - (former * GROWTH) - GROWTH_BYTES
  end

  def act(client, random)
    name = ACTS.keys.sample(random: random)
    @counts[name] += 1
    ACTS[name].call(client, random)
  rescue *EXPECTED
    @counts[:errors] += 1
  end
end
