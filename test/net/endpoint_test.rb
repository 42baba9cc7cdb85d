# frozen_string_literal: true

# How addresses are read and bound: Gyre::Endpoint.

require "test_helper"
require "tmpdir"
require "gyre/net/endpoint"

class EndpointTest < Minitest::Test
  def test_a_wrong_scheme_is_told_the_right_ones
    with_tls = assert_raises(ArgumentError) { Gyre::Endpoint.parse("h2://0.0.0.0:443", tls: true) }
    assert_match(%r{write tcp://host:port, ssl://host:port, }, with_tls.message)
    refute_match(/ssl:/, assert_raises(ArgumentError) { Gyre::Endpoint.parse("h2://0.0.0.0:443") }.message)
  end

  def test_a_tcp_url_is_taken_apart
    endpoint = Gyre::Endpoint.parse("tcp://example.org:80")
    assert_equal [:tcp, "example.org", 80], [endpoint.transport, endpoint.host, endpoint.port]
    assert_equal "tcp://example.org:80", endpoint.to_s
    assert_equal "http://example.org:80", endpoint.url
  end

  def test_an_http_url_means_tcp
    assert_equal Gyre::Endpoint.parse("tcp://localhost:9292"), Gyre::Endpoint.parse("http://localhost:9292/")
  end

  def test_a_port_alone_is_on_localhost
    assert_equal "tcp://localhost:3000", Gyre::Endpoint.parse(3000).to_s
    assert_equal "tcp://localhost:3000", Gyre::Endpoint.parse("3000").to_s
    assert_equal "tcp://0.0.0.0:3000", Gyre::Endpoint.parse("3000", host: "0.0.0.0").to_s
    assert_equal "tcp://[::1]:3000", Gyre::Endpoint.parse("3000?backlog=5", host: "::1").to_s
  end

  def test_a_host_alone_gets_the_default_port
    assert_equal "tcp://example.org:9292", Gyre::Endpoint.parse("example.org").to_s
    assert_equal "tcp://example.org:81", Gyre::Endpoint.parse("tcp://example.org", port: 81).to_s
  end

  def test_an_empty_host_and_a_star_mean_every_address
    assert_equal "*", Gyre::Endpoint.parse(":80").host
    assert_equal "*", Gyre::Endpoint.parse("tcp://*:80").host
  end

  def test_an_ipv6_address_stands_in_brackets
    endpoint = Gyre::Endpoint.parse("[::1]:80")
    assert_equal ["::1", 80], [endpoint.host, endpoint.port]
    assert_equal "tcp://[::1]:80", endpoint.to_s
    assert_equal "http://[::1]:80", endpoint.url
    assert_includes refusal("::1:80"), "brackets"
  end

  def test_a_unix_path_is_taken_apart
    assert_equal "/run/app.sock", Gyre::Endpoint.parse("unix:///run/app.sock").path
    assert_equal "tmp/app.sock", Gyre::Endpoint.parse("unix://tmp/app.sock").path
    assert_equal "/run/app.sock", Gyre::Endpoint.parse("/run/app.sock").path
    assert_equal "@app", Gyre::Endpoint.parse("unix://@app").path
    assert_equal "unix:///run/app.sock", Gyre::Endpoint.parse("/run/app.sock").url
  end

  def test_the_mode_of_a_unix_socket_is_octal
    assert_equal 0o660, Gyre::Endpoint.parse("unix:///run/app.sock?mode=0660").mode
    assert_nil Gyre::Endpoint.parse("unix:///run/app.sock").mode
    assert_includes refusal("unix:///run/app.sock?mode=rw"), "?mode=0660"
    %w[mode=0660 umask=0117].each { |query| assert_includes refusal("unix://@app?#{query}"), "an abstract socket has no permissions" }
  end

  def test_an_unreadable_address_is_an_error_with_the_valid_forms
    assert_includes refusal("ftp://localhost:1"), "tcp://host:port"
    assert_includes refusal(""), "tcp://host:port"
    assert_includes refusal("two words"), "tcp://host:port"
    assert_includes refusal("localhost:http"), "0 to 65535"
    assert_includes refusal("localhost:65536"), "0 to 65535"
    assert_includes refusal("65536"), "0 to 65535"
    assert_includes refusal("ssl://localhost:443"), "TLS"
    assert_includes refusal("unix:///#{"a" * 200}"), "107 bytes"
    %w[tcp:// http:///].each { |text| assert_includes refusal(text), "write tcp://host:port" }
    %w[unix:// unix:/// unix://@ unix:///run/].each { |text| assert_includes refusal(text), "the path is missing" }
    error = assert_raises(ArgumentError) { Gyre::Endpoint.parse("udp://", transports: %i[udp]) }
    assert_includes error.message, "write udp://host:port"
  end

  def test_tls_is_part_of_an_address_only_where_the_caller_takes_it
    %w[ssl://localhost:443 https://localhost tls://[::1]:443?cert=a&key=b unix:///run/app.sock?cert=a&key=b].each do |text|
      assert_includes refusal(text), "TLS is not part of an address here"
      refute_nil Gyre::Endpoint.parse(text, tls: true).tls
    end
    endpoint = Gyre::Endpoint.parse("ssl://[::1]:443?cert=a%26b&key=secret", tls: true)
    assert_equal [{ cert: "a&b", key: "secret" }, "ssl://[::1]:443", "https://[::1]:443"], [endpoint.tls, endpoint.to_s, endpoint.url]
    refute_includes endpoint.inspect, "secret"
    refute_equal endpoint, endpoint.with(tls: nil)
    assert_equal endpoint.tls, endpoint.with(port: 1).tls
    ["ssl://localhost?cert", "ssl://localhost?=a", "unix:///run/app.sock?mode=0600&key=b", "ssl://localhost:x?cert=a&key=b"].each do |text|
      assert_raises(ArgumentError, text) { Gyre::Endpoint.parse(text, tls: true) }
    end
  end

  def test_a_path_that_the_kernel_does_not_take_is_refused_however_it_is_given
    assert_equal 107, Gyre::Endpoint.new(:unix, path: "a" * 107).unix_address.unix_path.bytesize
    error = assert_raises(ArgumentError) { Gyre::Endpoint.new(:unix, path: "a" * 108) }
    assert_includes error.message, "at most 107 bytes, this one has 108"
  end

  def test_addresses_for_datagrams_are_read_where_they_are_asked_for
    udp = Gyre::Endpoint.parse("udp://[::1]:514", transports: %i[tcp udp])
    assert_equal [:udp, "::1", 514, "udp://[::1]:514"], [udp.transport, udp.host, udp.port, udp.to_s]
    file = Gyre::Endpoint.parse("unixgram:///run/log?mode=0666", transports: %i[unixgram])
    assert_equal [:unixgram, "/run/log", 0o666, "unixgram:///run/log"], [file.transport, file.path, file.mode, file.to_s]
    assert_predicate udp, :datagram?
    assert_predicate file, :datagram?
    refute_predicate Gyre::Endpoint.parse("/run/log"), :datagram?
    assert_match(/write tcp:.*, host:port or a port\z/, refusal("udp://localhost:1"))
    assert_match(/write tcp:/, refusal(udp))
    error = assert_raises(ArgumentError) { Gyre::Endpoint.parse("localhost:1", transports: %i[udp]) }
    assert_match(%r{write udp://host:port\z}, error.message)
  end

  def test_an_endpoint_is_its_own_reading
    endpoint = Gyre::Endpoint.parse("localhost:80")
    assert_same endpoint, Gyre::Endpoint.parse(endpoint)
  end

  def test_equal_addresses_are_equal_keys
    assert_equal 1, { Gyre::Endpoint.parse("localhost:80") => 1 }[Gyre::Endpoint.parse("tcp://localhost:80")]
    refute_equal Gyre::Endpoint.parse("localhost:80"), Gyre::Endpoint.parse("localhost:81")
  end

  def test_port_0_is_replaced_by_the_kernels_choice
    bind("tcp://127.0.0.1:0") do |listeners|
      assert_equal 1, listeners.size
      assert_operator listeners.first.port, :>, 0
      assert_equal "http://127.0.0.1:#{listeners.first.port}", listeners.first.url
    end
  end

  def test_localhost_listens_on_every_loopback_there_is_at_one_port
    bind("localhost:0") do |listeners|
      expected = ["127.0.0.1"]
      expected << "::1" if ipv6?
      assert_equal expected, listeners.map { |listener| listener.endpoint.host }
      assert_equal 1, listeners.map(&:port).uniq.size
      expected.each { |host| TCPSocket.new(host, listeners.first.port).close }
    end
  end

  def test_a_star_listens_for_both_families_at_one_port
    bind("*:0") do |listeners|
      TCPSocket.new("127.0.0.1", listeners.first.port).close
      TCPSocket.new("::1", listeners.first.port).close if ipv6?
      assert_equal 1, listeners.map(&:port).uniq.size
    end
  end

  def test_udp_is_bound_for_each_address_at_one_port
    listeners = Gyre::Endpoint.parse("udp://localhost:0", transports: %i[udp]).bind
    assert_equal 1, listeners.map(&:port).uniq.size
    sender = UDPSocket.new
    sender.send("hello", 0, "127.0.0.1", listeners.first.port)
    assert_equal "hello", listeners.first.socket.recv(10)
    assert_raises(Errno::EADDRINUSE) { listeners.first.endpoint.bind }
  ensure
    [sender, *listeners].compact.each(&:close)
  end

  def test_ipv6_any_takes_ipv4_as_well
    skip "this machine has no IPv6" unless ipv6?
    bind("[::]:0") do |listeners|
      assert_equal 1, listeners.size
      TCPSocket.new("127.0.0.1", listeners.first.port).close
    end
  end

  def test_a_port_in_use_names_the_address
    bind("127.0.0.1:0") do |listeners|
      error = assert_raises(Errno::EADDRINUSE) { Gyre::Endpoint.parse(listeners.first.to_s).bind }
      assert_includes error.message, "listen on tcp://127.0.0.1:#{listeners.first.port}"
    end
  end

  def test_a_host_without_address_is_named
    error = assert_raises(SocketError) { Gyre::Endpoint.parse("missing.invalid:0").bind }
    assert_includes error.message, "tcp://missing.invalid:0"
  end

  def test_all_or_none_of_the_addresses_are_bound
    skip "this machine has no IPv6" unless ipv6?
    bind("[::1]:0") do |taken|
      port = taken.first.port
      assert_raises(Errno::EADDRINUSE) { Gyre::Endpoint.parse("localhost:#{port}").bind }
      bind("127.0.0.1:#{port}") { |listeners| assert_equal port, listeners.first.port }
    end
  end

  def test_pumas_address_options_work_or_are_refused_with_the_reason
    assert_equal [64, nil], [Gyre::Endpoint.parse("tcp://h:1?backlog=64&low_latency=true").backlog, Gyre::Endpoint.parse("h:1").backlog]
    assert_equal [0o660, 5], Gyre::Endpoint.parse("unix:///s?umask=0117&backlog=5").then { |endpoint| [endpoint.mode, endpoint.backlog] }
    assert_equal ["v1", 9], Gyre::Endpoint.parse("h:1?backlog=9&proxy_protocol=v1", proxy: true).then { |each| [each.proxy_protocol, each.backlog] }
    assert_equal 7, Gyre::Endpoint.parse("ssl://h:1?backlog=7&cert=c&key=k", tls: true).with(host: "i").backlog
    { "h:1?backlog=0" => "a number of connections", "h:1?backlog=many" => "a number of connections", "h:1?low_latency=false" => "always on",
      "tcp://h:1?reuse=true" => "only \\?proxy_protocol=v1, \\?backlog", "unix:///s?umask=9" => "umask and backlog are known",
      "unix:///s?congestion=bbr" => "umask and backlog are known", "h:1?congestion=a%20b" => "a name like bbr" }.each do |address, reason|
      assert_match(/#{reason}/, assert_raises(ArgumentError) { Gyre::Endpoint.parse(address) }.message)
    end
  end

  def test_a_backlog_bounds_waiting_connections
    listener, = Gyre::Endpoint.parse("127.0.0.1:0?backlog=3").bind
    # Linux has it in tcpi_sacked of a socket that listens (tcp_get_info).
    assert_equal 3, listener.socket.getsockopt(:TCP, :INFO).unpack("C8 L6").last if RUBY_PLATFORM.include?("linux")
  ensure
    listener&.close
  end

  def test_congestion_control_holds_for_accepted_and_inherited_sockets_and_a_refusal_is_one_line
    skip "this system's TCP has no choice of congestion control" unless Socket.const_defined?(:TCP_CONGESTION)
    control = ->(socket) { socket.getsockopt(:TCP, Socket::TCP_CONGESTION).data.delete("\0") }
    bind("127.0.0.1:0?congestion=reno") do |(listener)|
      client = Socket.tcp("127.0.0.1", listener.port)
      accepted, = listener.socket.accept
      assert_equal "reno", control[accepted]
      [client, accepted].each(&:close)
    end
    plain, = Gyre::Endpoint.parse("127.0.0.1:0").bind
    Gyre::Listener.adopt(plain.socket.fileno, Gyre::Endpoint.parse("127.0.0.1:0?congestion=reno")).socket.autoclose = false
    assert_equal "reno", control[plain.socket]
    assert_output("", /\Alisten on tcp:\S+: the kernel refuses congestion=none-such and keeps its usual control; .*\n\z/) do
      bind("127.0.0.1:0?congestion=none-such") { |(listener)| refute_equal "none-such", control[listener.socket] }
    end
  ensure
    plain&.close
  end

  private

  def bind(address)
    listeners = Gyre::Endpoint.parse(address).bind
    yield listeners
  ensure
    listeners&.each(&:close)
  end

  def refusal(address)
    assert_raises(ArgumentError) { Gyre::Endpoint.parse(address) }.message
  end

  def ipv6?
    TCPServer.new("::1", 0).close
    true
  rescue SystemCallError
    false
  end
end
