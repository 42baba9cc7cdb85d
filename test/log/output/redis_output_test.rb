# frozen_string_literal: true

# Gyre::Log::Output::RedisOutput against Debian's redis-server: each record once, whatever breaks.

require "test_helper"
require "support/engines"
require "support/certificates"
require "support/redis_server"
require "gyre"
require "gyre/log/ingest"
require "gyre/log/output"
require "oracle/log/records"

GyreTest::Engines.test_case("LogOutputRedisTest", backends: GyreTest::Engines::NATIVE.first(1)) do
  const_set(:ID, "0123456789abcdef0123456789abcdef")
  const_set(:OTHER, "f" * 32)

  def setup
    @said = []
    @closing = []
  end

  def teardown
    @closing.reverse_each(&:close)
  end

  def test_batches_and_what_their_clients_have_stored
    output = open_output(server.url)
    Gyre.run do
      output.write(batch("one", "t\r\nw\0o \u00e9"), { self.class::ID => 2 })
      output.write(batch("three"))
      output.sync
    end
    assert_equal [%w[service s], %w[severity info], %w[message one]], server.entries("gyre").first.first(3)
    assert_equal ["one", "t\r\nw\0o \u00e9".b, "three"], messages
    assert_match(/\A2 \d+\z/, server.call("HGET", "{gyre}:clients", self.class::ID))
    again = open_output(server.url).tap(&:prepare)
    assert_equal [2, 2], [output, again].map { |each| each.stored_by(self.class::ID) }
  end

  def test_clients_are_unknown_until_they_were_read
    server.call("HSET", "{gyre}:clients", self.class::ID, "5 #{Time.now.to_i}")
    output = open_output(server.url)
    error = assert_raises(Gyre::Log::Output::Unavailable) { output.stored_by(self.class::ID) }
    assert_match(/\Aredis.*: its clients have not been read yet\z/, error.message)
    output.prepare
    assert_equal [5, 0], [self.class::ID, self.class::OTHER].map { |id| output.stored_by(id) }
  end

  # Cut at each of these points once: before, inside and after the request, before and inside the
  # answer.
  def test_wherever_the_connection_breaks_each_record_is_there_once
    proxy = GyreTest::Proxy.new(server.path).tap { |each| @closing << each }
    sizes = [0, 1, 10, 200, 400, -30, -1]
    cuts = %i[request reply].product(sizes)
    expected = []
    Gyre.run do
      cuts.each_with_index do |(direction, at), index|
        done = false
        proxy.cut = lambda do |way, bytes|
          next if done || way != direction || !bytes.include?(way == :request ? "EXEC" : "QUEUED")

          done = true
          [at.negative? ? bytes.bytesize + at : at, bytes.bytesize].min
        end
        output = open_output("redis://127.0.0.1:#{proxy.port}")
        output.write(batch("#{index} a", "#{index} b"), { self.class::ID => index + 1 })
        expected.push("#{index} a", "#{index} b")
        assert done, "#{direction} #{at} was not cut"
        assert_equal expected, messages, "#{direction} cut at #{at}"
        assert_equal index + 1, output.stored_by(self.class::ID)
        proxy.cut = nil
      end
    end
  end

  def test_redis_is_killed_and_comes_back
    server(appendonly: "yes", appendfsync: "always")
    output = open_output(server.url)
    Gyre.run do |task|
      output.write(batch("one"), { self.class::ID => 1 })
      server.kill
      writing = task.async { output.write(batch("two"), { self.class::ID => 2 }) }
      eventually { output.trouble }
      server.start
      writing.wait
      assert_equal %w[one two], messages
      assert_equal 2, output.stored_by(self.class::ID)
    end
    assert_match(/cannot store in it: .*; nothing is dropped/, @said.first)
    assert_match(/it works again/, @said.last)
  end

  def test_a_server_that_was_killed_before_it_could_acknowledge_stores_nothing_twice
    Gyre.run do
      open_output(server.url).write(batch("one", "two"), { self.class::ID => 2 })
      # The client sends all again, and a third one, to a fresh server.
      fresh = open_output(server.url).tap(&:prepare)
      ingest = Gyre::Log::Ingest.new
      sink = ingest.sink(**fresh.sink_options)
      ingest.route(nil, nil, [sink])
      decoder = ingest.decoder(:records, session: ingest.session(self.class::ID, { sink => fresh.stored_by(self.class::ID) }))
      %w[one two three].each.with_index(1) do |message, seq|
        record = Gyre::Log::Records.encode(seq: seq, time_us: 1, service: "s", severity: "info", message: message)
        assert_nil decoder.feed(record, 1)
      end
      fresh.write(*sink.take)
    end
    assert_equal %w[one two three], messages
  end

  def test_several_servers_feed_one_stream_that_consumers_read_in_groups
    server.call("XGROUP", "CREATE", "gyre", "readers", "0", "MKSTREAM")
    Gyre.run do |task|
      Array.new(3) do |writer|
        output = open_output(server.url)
        task.async { 10.times { |index| output.write(batch(*Array.new(10) { |line| "#{writer} #{index} #{line}" })) } }
      end.each(&:wait)
    end
    read = %w[a b].cycle.lazy.map do |consumer|
      reply = server.call("XREADGROUP", "GROUP", "readers", consumer, "COUNT", 37, "STREAMS", "gyre", ">")
      reply && reply[0][1].map { |id, fields| server.call("XACK", "gyre", "readers", id) && fields.each_slice(2).to_h["message"] }
    end.take_while(&:itself).to_a.flatten
    assert_equal 300, read.size
    assert_equal 300, read.uniq.size
    3.times { |writer| assert_equal read.grep(/\A#{writer} /).sort, read.grep(/\A#{writer} /), "in order" }
    assert_equal 0, server.call("XPENDING", "gyre", "readers").first
  end

  def test_the_example_of_a_consumer
    output = open_output(server.url)
    Gyre.run { 6.times { |index| output.write(batch("a #{index}", "b #{index}")) } }
    program = File.expand_path("../../../examples/log_redis_consumer.rb", __dir__)
    # One that died after it had read three.
    server.call("XGROUP", "CREATE", "gyre", "printers", "0")
    server.call("XREADGROUP", "GROUP", "printers", "first", "COUNT", 3, "STREAMS", "gyre", ">")
    lines = [["first", 8], ["second", 4]].flat_map do |consumer, count|
      run = ruby(program, "printers", consumer, env: { "REDIS" => server.path, "COUNT" => count.to_s, "GYRE_BACKEND" => backend })
      assert_equal "", run.err
      run.out.lines(chomp: true)
    end
    assert_equal messages, lines.map { |line| line.split("|").last }
    assert_match(/\A2023-11-\d\dT.*\|s\|info\|a 0\z/, lines.first)
    assert_equal 0, server.call("XPENDING", "gyre", "printers").first
  end

  def test_the_stream_is_trimmed
    output = open_output(server.url, stream: "short", max_length: 100)
    Gyre.run { 5.times { |index| output.write(batch(*Array.new(200) { |line| "#{index} #{line}" }, stream: "short")) } }
    assert_operator server.call("XLEN", "short"), :<, 400
    assert_equal "4 199", messages("short").last
  end

  def test_password_user_and_database
    server(requirepass: "p@ss w/rd")
    password = "p%40ss%20w%2frd"
    output = open_output(server.url(":#{password}@", database: 3))
    Gyre.run { output.write(batch("one")) }
    refute_includes output.to_s, "p%40"
    wrong = open_output(server.url("default:wrong@"))
    Gyre.run do |task|
      writing = task.async { wrong.write(batch("two")) }
      eventually { wrong.trouble }
      writing.stop
    end
    assert_match(/WRONGPASS/, wrong.trouble)
    again = open_output(server.url("default:#{password}@", database: 3))
    Gyre.run { again.write(batch("three")) }
    assert_match(/NOAUTH/, server.call("XLEN", "gyre"))
  end

  def test_over_tls_certificate_and_name_are_verified
    skip "this build has no TLS" unless Gyre::TLS.available?
    Dir.mktmpdir do |folder|
      certificates = GyreTest::Certificates.new(folder)
      @server = GyreTest::RedisServer.with_tls(need_program("redis-server"), [*certificates.issue("redis"), certificates.authority],
        tls_auth_clients: "yes")
      @closing << @server
      url = "rediss://127.0.0.1:#{@server.tls_port}"
      cert, key = certificates.issue("client")
      strange = "ca=#{certificates.authority("stranger")}&cert=#{cert}&key=#{key}"
      { "" => /certificate/, "ca=#{certificates.authority}" => /./, strange => /certificate/ }.each do |query, trouble|
        refused = open_output("#{url}?#{query}")
        Gyre.run do |task|
          writing = task.async { refused.write(batch("lost")) }
          eventually { refused.trouble }
          writing.stop
        end
        assert_match trouble, refused.trouble
      end
      ["ca=#{certificates.authority}", "verify=false"].each do |query|
        Gyre.run { open_output("#{url}/0?#{query}&cert=#{cert}&key=#{key}").write(batch("one")) }
      end
      assert_equal 2, @server.call("XLEN", "gyre")
    end
    error = assert_raises(ArgumentError) { open_output("rediss://127.0.0.1?ca=/nowhere.pem") }
    assert_match(%r{\Atls: the ca /nowhere\.pem}, error.message)
  end

  def test_without_memory_it_waits_and_stores_once
    output = open_output(server.url)
    server.call("CONFIG", "SET", "maxmemory", "1")
    Gyre.run do |task|
      writing = task.async { output.write(batch("one"), { self.class::ID => 1 }) }
      eventually { output.trouble }
      server.call("CONFIG", "SET", "maxmemory", "0")
      writing.wait
    end
    assert_equal ["one"], messages
    assert_match(/OOM/, @said.first)
  end

  def test_a_key_of_another_type_is_reported_and_nothing_counts
    server.call("SET", "gyre", "text")
    output = open_output(server.url)
    Gyre.run do |task|
      writing = task.async { output.write(batch("one"), { self.class::ID => 1 }) }
      eventually { output.trouble }
      assert_match(/gyre is a string/, output.trouble)
      assert_equal 0, output.stored_by(self.class::ID)
      server.call("DEL", "gyre")
      writing.wait
    end
    assert_equal ["one"], messages
  end

  def test_clients_that_were_not_seen_for_long_are_forgotten
    now = Time.now.to_i
    server.call("HSET", "{gyre}:clients", self.class::ID, "5 #{now - 31 * 86_400}", self.class::OTHER, "6 #{now - 86_400}")
    output = open_output(server.url)
    Gyre.run { 2.times { output.write(batch("one")) } }
    assert_equal [0, 6], [self.class::ID, self.class::OTHER].map { |id| output.stored_by(id) }
  end

  def test_a_large_batch
    lines = Array.new(5000) { |index| "line #{index} #{"x" * 80}" }
    output = open_output(server.url)
    Gyre.run { output.write(batch(*lines)) }
    assert_equal lines, messages
  end

  def test_it_never_shows_a_password_in_an_error
    error = assert_raises(ArgumentError) { Gyre::Log::Output.open({ logfile: "redis://me:secret@host/x/y" }) }
    refute_includes error.message, "secret"
  end

  private

  def server(**settings)
    @server ||= GyreTest::RedisServer.new(need_program("redis-server"), **settings).tap { |server| @closing << server }
  end

  def open_output(url, **options)
    Gyre::Log::Output::RedisOutput.new(url, report: @said.method(:push), longest_pause_s: 0.05, **options).tap { |output| @closing << output }
  end

  def batch(*messages, stream: "gyre")
    ingest = Gyre::Log::Ingest.new
    sink = ingest.sink(format: :redis, key: stream)
    ingest.route(nil, nil, [sink])
    messages.each { |message| ingest.log("s", "info", message, 1_700_000_000_000_000_000) }
    sink.take.first
  end

  def messages(stream = "gyre")
    server.entries(stream).map { |fields| fields["message"] }
  end
end
