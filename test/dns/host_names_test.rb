# frozen_string_literal: true

# Host names of the whole process (Gyre::DNS.host_names), in the slot that the scheduler and
# Gyre.connect ask.
require "test_helper"
require "tmpdir"
require "gyre"
require "gyre/net"
require "gyre/dns/host_names"
require "support/name_servers"

class DNSHostNamesTest < Minitest::Test
  include GyreTest::NameServers

  def teardown
    Gyre::DNS.host_names = :never
    @resolver&.close
    close_scripted
  end

  def test_the_scheduler_and_connections_ask_the_slot
    Gyre::HostNames.resolver = ->(name) { { "one.test" => ["127.0.0.1"], "none.test" => [] }[name] }
    TCPServer.open("127.0.0.1", 0) do |server|
      port = server.local_address.ip_port
      [->(&block) { Gyre.run(&block) }, ->(&block) { block.call }].each do |way|
        way.call { Gyre.connect("tcp://one.test:#{port}").close }
        assert_raises(SocketError) { way.call { Gyre.connect("tcp://none.test:#{port}") } }
        way.call { Gyre.connect("tcp://localhost:#{port}").close } # nil: the system
      end
      Gyre.run { TCPSocket.new("one.test", port).close }
      assert_equal(["127.0.0.1"], Gyre.run { Addrinfo.getaddrinfo("one.test", port, nil, :STREAM).map(&:ip_address) })
    end
  end

  def test_the_modes
    assert_equal :never, Gyre::DNS.host_names
    Gyre::DNS::HOST_NAMES.each do |mode|
      Gyre::DNS.host_names = mode
      assert_equal mode, Gyre::DNS.host_names
    end
    assert_raises(ArgumentError) { Gyre::DNS.host_names = :sometimes }
  end

  def test_a_name_is_resolved_where_the_system_would_do_the_same
    names = names("hosts: files dns\n", "# nothing\n")
    assert_equal ["192.0.2.1"], names.call("one.test")
    assert_equal ["192.0.2.77"], names.call("file.test")
    assert_empty names.call("missing.test")
  end

  def test_an_outage_of_name_servers_is_a_temporary_failure_for_all_callers
    Gyre::HostNames.resolver = names("hosts: files dns\n", "")
    errors = [-> { Gyre.run { TCPSocket.new("silent.test", 80) } }, -> { Gyre.run { Gyre.connect("tcp://silent.test:80") } },
              -> { Gyre.connect("tcp://silent.test:80") }].map { |call| assert_raises(SocketError, &call) }
    errors.each { |error| assert_match(/Temporary failure in name resolution \(silent\.test: no response in time\)/, error.message) }
    assert_equal [Socket::EAI_AGAIN], errors.map(&:error_code).uniq
  end

  def test_other_ways_of_the_system_are_left_to_it
    [["hosts: files mdns dns\n", ""], ["hosts: files dns\n", "precedence ::ffff:0:0/96 100\n"]].each do |nsswitch, gai|
      assert_nil names(nsswitch, gai).call("one.test")
      assert_equal ["192.0.2.1"], names(nsswitch, gai, mode: :always).call("one.test")
    end
    assert_nil names("hosts: files dns\n", "", options: "options no-aaaa").call("one.test")
    assert_nil names("hosts: files dns\n", "", options: "search #{"x" * 70}.test").call("one.test"), "glibc may end its search there"
  end

  def test_names_in_old_forms_of_addresses_and_strange_ones_are_left_to_the_system
    names = names("hosts: files dns\n", "")
    ["127.1", "0x7f.1", "1", "0x7f000001", "localhost", "www.localhost", "a b", "", "-a.test", "a..test", "é.test", "fe80::1%lo"].each do |name|
      assert_nil names.call(name), name
    end
    assert_equal ["192.0.2.1"], names.call("a_b.0x1.one.test"), "underscores and digits may stand in other labels"
  end

  private

  def names(nsswitch, gai, mode: :exact, options: "")
    server = scripted do |bytes|
      next if name_of(bytes).start_with?("silent")
      next reply_to(bytes, rcode: 3) if name_of(bytes).start_with?("missing")

      reply_to(bytes, *("#{name_of(bytes)} 60 A 192.0.2.1" if type_of(bytes) == 1))
    end
    folder = Dir.mktmpdir
    write = ->(name, text) { File.join(folder, name).tap { |path| File.write(path, text) } }
    resolver = Gyre::DNS::Resolver.new(server.address, hosts: write.call("hosts", "192.0.2.77 file.test"), timeout_s: 0.2, attempts: 1)
    configuration = Gyre::DNS::Configuration.new("search\n#{options}")
    resolver.define_singleton_method(:configuration) { configuration }
    made = Gyre::DNS::SystemNames.new(mode, resolver: resolver, nsswitch: write.call("nsswitch.conf", nsswitch), gai: write.call("gai.conf", gai))
    made.call("file.test") # reads the files
    made
  ensure
    FileUtils.rm_rf(folder)
  end
end
