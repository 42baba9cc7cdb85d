# frozen_string_literal: true

# Names resolved (Gyre::DNS::Resolver): by Debian's dnsmasq, and by servers that answer wrongly.
require "test_helper"
require "tmpdir"
require "gyre"
require "gyre/dns/resolver"
require "support/name_servers"

class DNSResolverTest < Minitest::Test
  include GyreTest::NameServers

  ZONE = %w[--local=/test/ --host-record=one.test,192.0.2.1,2001:db8::1 --host-record=host.a.test,192.0.2.2 --cname=alias.test,one.test
            --mx-host=one.test,mail.test,10 --address=/wild.test/192.0.2.9].push("--txt-record=one.test,hello world").freeze
  SOA = "test 900 SOA ns.test admin.test 1 2 3 4 300"

  def teardown
    @resolver&.close
    close_scripted
  end

  def test_records_of_a_real_server
    with_dnsmasq(*ZONE) do |address|
      resolver(address, "tcp://#{address}").then do |resolver|
        assert_equal ["192.0.2.1", "2001:db8::1"], resolver.addresses("one.test").sort
        assert_equal resolver.addresses("one.test"), resolver.addresses("ALIAS.test.")
        assert_equal "mail.test", resolver.records("one.test", "MX").first.resource.exchange.to_s
        assert_equal ["hello world"], resolver.records("one.test", Resolv::DNS::Resource::IN::TXT).first.resource.strings
        assert_equal ["one.test"], resolver.records("alias.test").map(&:name)
        assert_empty resolver.addresses("nothing.test")
        assert_equal 3, resolver.query("nothing.test").rcode
        assert_empty resolver.records("one.test", "SRV")
      end
    end
  end

  def test_a_plain_thread_and_tasks_get_the_same
    with_dnsmasq(*ZONE) do |address|
      ["", "tcp://"].each do |scheme|
        resolver = resolver("#{scheme}#{address}")
        found = Gyre.run { |task| Array.new(20) { |index| task.async { resolver.addresses("n#{index}.wild.test") } }.map(&:wait) }
        assert_equal [["192.0.2.9"]], found.uniq
        assert_equal ["192.0.2.9"], resolver.addresses("x.wild.test")
        assert_equal ["192.0.2.9"], Thread.new { resolver.addresses("y.wild.test") }.value
        assert_equal(["192.0.2.9"], Gyre.run { Fiber.blocking { resolver.addresses("z.wild.test") } }) if Fiber.respond_to?(:blocking)
      end
    end
  end

  def test_search_domains
    with_dnsmasq(*ZONE) do |address|
      resolver = resolver(address, search: %w[b.test a.test])
      assert_equal ["192.0.2.2"], resolver.addresses("host")
      assert_raises(Gyre::DNS::NoAnswer) { resolver.addresses("host.") } # dnsmasq refuses it
      assert_equal ["192.0.2.2"], resolver.addresses("host.a.test")
    end
  end

  def test_the_hosts_file_comes_first
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, "hosts"), "192.0.2.77 one.test\n")
      resolver = resolver(scripted { flunk }.address, hosts: File.join(folder, "hosts"))
      assert_equal ["192.0.2.77"], resolver.addresses("ONE.test")
      assert_equal ["192.0.2.78"], resolver.addresses("192.0.2.78")
      assert_equal ["::1"], resolver.addresses("::1")
    end
  end

  def test_a_changed_resolv_conf_counts
    Dir.mktmpdir do |folder|
      path = File.join(folder, "resolv.conf")
      File.write(path, "nameserver 127.0.0.1\noptions use-vc")
      @resolver = Gyre::DNS::Resolver.new(resolv_conf: path, hosts: nil)
      assert_equal "tcp://127.0.0.1:53", @resolver.upstream.servers.join(" ")
      File.write(path, "nameserver 127.0.0.2\nnameserver ::1\nsearch x.test")
      eventually { @resolver.upstream.servers.join(" ") == "udp://127.0.0.2:53 udp://[::1]:53" }
      assert_equal ["x.test"], @resolver.configuration.search
    end
  end

  # --- the cache ---

  def test_an_answer_is_asked_once_within_its_ttl
    server = scripted { |bytes| type_of(bytes) == 1 ? reply_to(bytes, "one.test 60 A 192.0.2.1") : reply_to(bytes, authority: [SOA]) }
    resolver = resolver(server.address)
    3.times { assert_equal ["192.0.2.1"], resolver.addresses("one.test") }
    assert_equal 2, server.queries.size
  end

  def test_a_missing_name_is_asked_once_and_without_an_soa_each_time
    server = scripted { |bytes| reply_to(bytes, rcode: 3, authority: name_of(bytes) == "one.test" ? [SOA] : []) }
    resolver = resolver(server.address)
    2.times { assert_equal 3, resolver.query("one.test").rcode }
    assert_equal 1, server.queries.size
    2.times { assert_equal 3, resolver.query("two.test").rcode }
    assert_equal 3, server.queries.size
  end

  def test_a_failure_and_a_ttl_of_zero_are_not_kept
    server = scripted { |bytes| server.queries.size == 1 ? reply_to(bytes, rcode: 2) : reply_to(bytes, "one.test 0 A 192.0.2.1") }
    resolver = resolver(server.address, attempts: 1)
    assert_match(/one\.test: the name server failed, ServFail/, assert_raises(Gyre::DNS::NoAnswer) { resolver.query("one.test") }.message)
    2.times { assert_equal 0, resolver.query("one.test").rcode }
    assert_equal 3, server.queries.size
  end

  def test_an_alias_of_a_missing_record_is_kept_no_longer_than_its_own_ttl
    server = scripted { |bytes| reply_to(bytes, "one.test 0 CNAME two.test", authority: [SOA]) }
    2.times { assert_empty resolver(server.address).records("one.test") }
    assert_equal 2, server.queries.size
  end

  def test_a_ttl_with_the_top_bit_is_zero
    server = scripted { |bytes| reply_to(bytes, "one.test #{1 << 31} A 192.0.2.1") }
    resolver = resolver(server.address)
    2.times { assert_equal [0], resolver.records("one.test").map(&:ttl) }
    assert_equal 2, server.queries.size
  end

  # --- names ---

  def test_names_of_services_have_spaces_and_accents_and_come_as_they_are_or_escaped
    server = scripted { |bytes| reply_to(bytes, "#{name_of(bytes)} 60 MX 1 box.test", "alias.test 60 CNAME plain.test") }
    resolver = resolver(server.address)
    ["My Printer._ipp.test", "My\\032Printer._ipp.test", "Café._ipp.test"].each do |name|
      assert_equal 1, resolver.records("#{name}.", "MX").size, name
    end
    assert_equal 2, server.queries.size
  end

  def test_candidates_that_a_search_domain_makes_invalid_are_skipped
    server = scripted do |bytes|
      name_of(bytes).start_with?("known") ? reply_to(bytes, "#{name_of(bytes)} 60 A 192.0.2.1") : reply_to(bytes, rcode: 3)
    end
    long = (["a" * 60] * 4).join(".")
    assert_empty resolver(server.address, search: ["department.example.org"]).addresses(long)
    ["x" * 70, ".test", (["a" * 60] * 4).join(".")].each do |domain|
      assert_equal ["192.0.2.1"], resolver(server.address, search: [domain]).addresses("known.example.org")
    end
  end

  def test_single_request_asks_one_question_after_another_each_from_its_own_port
    server = scripted { |bytes| reply_to(bytes, "one.test 60 #{type_of(bytes) == 1 ? "A 192.0.2.1" : "AAAA 2001:db8::1"}") }
    resolver = resolver(server.address)
    resolver.instance_variable_set(:@configuration, Gyre::DNS::Configuration.new("options single-request-reopen"))
    assert_equal 2, resolver.addresses("one.test").size
    assert_equal 2, server.ports.uniq.size
  end

  # --- one query for all callers ---

  def test_callers_of_one_name_share_a_query
    gate = Thread::Queue.new
    server = scripted { |bytes| gate.pop && reply_to(bytes, "one.test 60 A 192.0.2.1") }
    resolver = resolver(server.address)
    Gyre.run do |task|
      tasks = Array.new(10) { task.async { resolver.query("one.test") } }
      thread = Thread.new { resolver.query("ONE.test.") }
      eventually { server.queries.size == 1 }
      gate.push(true)
      assert_equal [1], [*tasks.map(&:wait), thread.value].map { |message| message.answers.size }.uniq
    end
    assert_equal 1, server.queries.size
  end

  def test_stopped_callers_do_not_stop_the_others
    gate = Thread::Queue.new
    server = scripted { |bytes| gate.pop && reply_to(bytes, "one.test 60 A 192.0.2.1") }
    resolver = resolver(server.address)
    Gyre.run do |task|
      tasks = Array.new(4) { task.async { resolver.query("one.test") } }
      eventually { server.queries.size == 1 }
      tasks[1].stop
      tasks[0].stop # it was asking
      eventually { gate.num_waiting == 1 }
      2.times { gate.push(true) }
      tasks.last(2).each { |each| assert_equal 1, each.wait.answers.size }
    end
  end

  def test_a_forked_child_does_not_wait_for_queries_of_its_parent
    server = scripted { nil }
    resolver = resolver(server.address, timeout_s: 0.2, attempts: 1)
    thread = Thread.new { assert_raises(Gyre::DNS::NoAnswer) { resolver.query("one.test") } }
    eventually { server.queries.any? }
    child = fork do
      Gyre.run { Gyre.with_deadline(20) { resolver.query("one.test") } }
    rescue Gyre::DNS::NoAnswer
      exit!(0)
    ensure
      exit!(1)
    end
    assert_predicate Process.wait2(child).last, :success?
    thread.join
  end

  def test_a_deadline_ends_the_wait
    resolver = resolver(scripted { nil }.address)
    Gyre.run do
      assert_raises(Gyre::TimeoutError) { Gyre.with_deadline(0.05) { resolver.addresses("one.test") } }
    end
  end

  # --- hostile answers ---

  def test_aliases_without_end_have_no_address
    loops = { "two" => ["one.test 60 CNAME two.test", "two.test 60 CNAME one.test"], "self" => ["one.test 60 CNAME one.test"],
              "long" => (0..200).map { |index| "#{index.zero? ? "one" : "n#{index}"}.test 60 CNAME n#{index + 1}.test" } }
    loops.each_value do |records|
      server = scripted { |bytes| reply_to(bytes, *records) }
      assert_empty resolver(server.address).addresses("one.test")
    end
  end

  def test_records_of_other_names_do_not_count
    server = scripted { |bytes| reply_to(bytes, "two.test 60 A 192.0.2.66", "one.test 60 CNAME three.test", "three.test 60 A 192.0.2.1") }
    assert_equal ["192.0.2.1"], resolver(server.address).addresses("one.test")
  end

  def test_malformed_answers_are_no_answer
    [->(good) { good.byteslice(0, good.bytesize - 2) }, ->(good) { good.b.tap { |bytes| bytes[6, 2] = "\xff\xff".b } },
     ->(good) { good.b.tap { |bytes| bytes[26, 2] = "\xc0\x1a".b } }].each do |broken|
      server = scripted { |bytes| broken.call(reply_to(bytes, "one.test 60 A 192.0.2.1")) }
      assert_raises(Gyre::DNS::NoAnswer) { resolver(server.address, attempts: 1).query("one.test") }
    end
  end

  def test_silence_has_a_reason
    error = assert_raises(Gyre::DNS::NoAnswer) { resolver(scripted { nil }.address, timeout_s: 0.05, attempts: 1).addresses("one.test") }
    assert_equal "one.test: no response in time", error.message
    assert_predicate error, :silent?
  end

  def test_one_family_is_enough_when_the_other_fails
    server = scripted { |bytes| type_of(bytes) == 1 ? reply_to(bytes, "one.test 60 A 192.0.2.1") : reply_to(bytes, rcode: 2) }
    assert_equal ["192.0.2.1"], resolver(server.address).addresses("one.test")
  end

  def test_what_cannot_be_a_name_is_the_callers_fault
    resolver = resolver(scripted { flunk }.address)
    ["a..b", ".a", "#{"a" * 64}.test", (["a" * 60] * 5).join(".")].each { |name| assert_raises(ArgumentError, name) { resolver.query(name) } }
    assert_raises(ArgumentError) { resolver.query("one.test", "NOTYPE") }
    assert_raises(ArgumentError) { Gyre::DNS::Resolver.new("dns.example") }
  end

  private

  def resolver(*servers, hosts: nil, **options)
    @resolver&.close
    @resolver = Gyre::DNS::Resolver.new(*servers, hosts: hosts, timeout_s: 60, **options)
  end
end
