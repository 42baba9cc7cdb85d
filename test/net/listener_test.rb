# frozen_string_literal: true

# Listening sockets and the files of Unix sockets: Gyre::Listener.

require "test_helper"
require "delegate"
require "fcntl"
require "timeout"
require "tmpdir"
require "gyre/net/endpoint"

class ListenerTest < Minitest::Test
  def test_a_refusing_listener_still_accepts_waiting_connections_over_tcp
    skip "sockets have no filters here" unless Socket.const_defined?(:SO_ATTACH_FILTER)
    listener = endpoint("tcp://127.0.0.1:0").bind.first
    waiting = TCPSocket.new("127.0.0.1", listener.port)
    listener.refuse
    late = Socket.new(:INET, :STREAM)
    assert_equal :wait_writable, late.connect_nonblock(Addrinfo.tcp("127.0.0.1", listener.port), exception: false)
    accepted, = listener.to_io.accept_nonblock
    assert_raises(IO::WaitReadable) { listener.to_io.accept_nonblock }
    waiting.write("through the filter")
    assert_equal "through the filter", accepted.readpartial(100)
    listener.close
    assert late.wait_writable(30), "the kernel has not tried again"
    assert_equal Errno::ECONNREFUSED::Errno, late.getsockopt(:SOCKET, :ERROR).int
  ensure
    [waiting, accepted, late, listener].compact.each(&:close)
  end

  def test_a_refusing_listener_still_accepts_waiting_connections_over_a_unix_socket
    in_folder do |path|
      listener = endpoint(path).bind.first
      waiting = UNIXSocket.new(path)
      File.link(path, "#{path}2") # a name that stays, as of a client that has looked it up already
      listener.refuse
      refute_path_exists path
      assert_raises(Errno::ECONNREFUSED) { UNIXSocket.new("#{path}2") }
      accepted, = listener.to_io.accept_nonblock
      waiting.write("hello")
      assert_equal "hello", accepted.readpartial(100)
    ensure
      [waiting, accepted, listener].compact.each(&:close)
    end
  end

  def test_a_forked_childs_refusal_leaves_the_parent_listening
    listener = endpoint("tcp://127.0.0.1:0").bind.first
    Process.wait(fork { exit!(listener.refuse.nil?) })
    assert_predicate $?, :success?
    TCPSocket.new("127.0.0.1", listener.port).close
  ensure
    listener&.close
  end

  def test_the_refusal_of_an_adopted_socket_leaves_its_giver_listening
    listener = endpoint("tcp://127.0.0.1:0").bind.first
    adopted = Gyre::Listener.adopt(listener.socket.dup.tap { |socket| socket.autoclose = false }.fileno, listener.endpoint)
    adopted.refuse
    adopted.close
    Socket.tcp("127.0.0.1", listener.port, connect_timeout: 10).close
  ensure
    listener&.close
  end

  def test_a_child_that_shares_the_socket_goes_on_after_its_parent_has_refused_and_closed
    listener = endpoint("tcp://127.0.0.1:0").bind.first
    shared = listener.socket.dup
    listener.refuse
    listener.close
    Socket.tcp("127.0.0.1", listener.port, connect_timeout: 10).close
  ensure
    shared&.close
    listener&.close
  end

  def test_a_listener_takes_connections
    listen("127.0.0.1:0") do |listener|
      client = TCPSocket.new("127.0.0.1", listener.port)
      accepted, = listener.socket.accept
      accepted.write("hello")
      accepted.close
      assert_equal "hello", client.read
      client.close
    end
  end

  def test_a_unix_socket_appears_and_goes_with_its_listener
    in_folder do |path|
      listen(path) do |listener|
        assert_predicate File.stat(path), :socket?
        UNIXSocket.new(path).close
        assert_nil listener.port
        listener.close
        assert_predicate listener, :closed?
      end
      refute_path_exists path
    end
  end

  def test_closing_twice_does_no_harm
    listen("127.0.0.1:0", &:close)
  end

  def test_the_mode_is_made_with_the_file_and_never_set_by_its_name
    in_folder do |base|
      changed = []
      umask = File.umask
      trace = TracePoint.new(:c_call) { |point| changed << point.method_id if %i[chmod chown lchown].include?(point.method_id) }
      %w[0666 0600 0660].each do |mode|
        path = "#{base}.#{mode}"
        trace.enable { listen("unix://#{path}?mode=#{mode}") { assert_equal mode.to_i(8), File.stat(path).mode & 0o777 } }
      end
      assert_equal [[], umask], [changed, File.umask]
    end
  end

  def test_the_mode_is_set_before_a_client_can_connect
    in_folder do |path|
      listen("unix://#{path}?mode=0600") { assert_equal 0o600, File.stat(path).mode & 0o777 }
    end
  end

  def test_a_stale_socket_file_is_replaced
    in_folder do |path|
      dead = UNIXServer.new(path)
      dead.close
      assert_path_exists path
      listen(path) { UNIXSocket.new(path).close }
    end
  end

  # A clock that stands in one thread.
  module StillClock
    def now = Thread.current[:clock_stands] ? 0.0 : super
  end

  # Two servers that start at once over a stale file: the second one looks when the first listens,
  # and would go on alone after a second.
  def test_servers_of_a_folder_take_their_sockets_one_after_the_other
    in_folder do |path|
      UNIXServer.new(path).close
      File.open(File.dirname(path)) do |folder|
        folder.flock(File::LOCK_EX)
        Gyre::Clock.singleton_class.prepend(StillClock)
        second = Thread.new { (Thread.current[:clock_stands] = true) && Gyre::Endpoint.parse(path).bind }
        second.report_on_exception = false
        eventually { second.stop? }
        assert_equal true, second.alive? && File.socket?(path)
        File.unlink(path)
        first = UNIXServer.new(path)
        folder.flock(File::LOCK_UN)
        assert_raises(Errno::EADDRINUSE) { second.value }
        UNIXSocket.new(path).close
        first.close
      end
    end
  end

  def test_a_folder_that_another_program_has_locked_is_waited_for_a_moment_only
    in_folder do |path|
      File.open(File.dirname(path)) do |folder|
        folder.flock(File::LOCK_EX)
        listen(path) { UNIXSocket.new(path).close }
      end
    end
  end

  # As a time-out around a start: the lock and its descriptor do not wait for the collector.
  def test_an_exception_from_another_thread_leaves_no_folder_locked
    in_folder do |path|
      holds = Thread::Queue.new
      endpoint = Class.new(SimpleDelegator) { define_method(:unix_address) { holds << true && sleep } }.new(Gyre::Endpoint.parse(path))
      binding = Thread.new { Gyre::Listener.unix(endpoint, backlog: 1) }
      binding.report_on_exception = false
      File.open(File.dirname(path)) do |folder|
        holds.pop
        refute folder.flock(File::LOCK_EX | File::LOCK_NB)
        binding.raise(Timeout::Error)
        assert_raises(Timeout::Error) { binding.value }
        assert folder.flock(File::LOCK_EX | File::LOCK_NB), "the folder is still locked"
      end
    end
  end

  def test_a_living_servers_socket_is_left_alone
    in_folder do |path|
      listen(path) do
        error = assert_raises(Errno::EADDRINUSE) { Gyre::Endpoint.parse(path).bind }
        assert_includes error.message, path
        UNIXSocket.new(path).close
      end
    end
  end

  def test_a_living_server_with_a_full_backlog_counts_as_living
    in_folder do |path|
      listen(path, backlog: 0) do
        waiting = [UNIXSocket.new(path)]
        assert_raises(Errno::EADDRINUSE) { Gyre::Endpoint.parse(path).bind }
        waiting.each(&:close)
      end
    end
  end

  def test_a_file_other_than_a_socket_is_left_alone
    in_folder do |path|
      File.write(path, "precious")
      assert_raises(Errno::EEXIST) { Gyre::Endpoint.parse(path).bind }
      assert_equal "precious", File.read(path)
    end
  end

  def test_a_successors_file_is_left_alone
    in_folder do |path|
      listen(path) do |listener|
        File.unlink(path)
        listen(path) do
          listener.close
          UNIXSocket.new(path).close
        end
      end
    end
  end

  def test_a_forked_child_leaves_the_file_to_its_parent
    skip "no fork here" unless Process.respond_to?(:fork)
    in_folder do |path|
      listen(path) do |listener|
        Process.wait(fork { listener.close; exit!(0) })
        UNIXSocket.new(path).close
      end
    end
  end

  def test_a_folder_without_permission_is_named
    error = assert_raises(SystemCallError) { Gyre::Endpoint.parse("/nowhere/at/all.sock").bind }
    assert_includes error.message, "listen on unix:///nowhere/at/all.sock"
  end

  def test_an_abstract_socket_needs_no_file
    skip "abstract sockets are Linux's" unless RUBY_PLATFORM.include?("linux")
    name = "gyre-test-#{Process.pid}-#{rand(1 << 32)}"
    listen("unix://@#{name}") { Socket.unix("\0#{name}").close }
  end

  def test_a_socket_for_datagrams_appears_and_goes_with_its_listener
    in_folder do |path|
      listen("unixgram://#{path}") do |listener|
        assert_raises(Errno::EADDRINUSE) { Gyre::Endpoint.parse("unixgram://#{path}", transports: %i[unixgram]).bind }
        assert_raises(Errno::EADDRINUSE) { Gyre::Endpoint.parse(path).bind } # the other kind of socket
        Socket.new(:UNIX, :DGRAM).tap { |socket| socket.connect(Addrinfo.unix(path)) }.tap { |socket| socket.send("hello", 0) }.close
        assert_equal "hello", listener.socket.recv(10)
        assert_predicate listener, :datagram?
      end
      refute_path_exists path
      dead = Socket.new(:UNIX, :DGRAM).tap { |socket| socket.bind(Addrinfo.unix(path)) }
      dead.close
      listen("unixgram://#{path}") { assert_path_exists path }
    end
  end

  def test_a_descriptor_that_listens_already_is_adopted
    in_folder do |path|
      ["127.0.0.1:0", path, "udp://127.0.0.1:0", "unixgram://#{path}"].each do |address|
        before = endpoint(address).bind.first
        after = Gyre::Listener.adopt(before.socket.fcntl(Fcntl::F_DUPFD, 3), endpoint(address))
        assert_equal before.endpoint, after.endpoint
        assert_predicate after.socket, :close_on_exec?
        before.socket.close # as an exec does it: the file stays
        assert_path_exists path if after.endpoint.path
        after.close
        refute_path_exists path
      end
    end
  end

  def test_an_adopted_listener_takes_connections
    before = endpoint("127.0.0.1:0").bind.first
    after = Gyre::Listener.adopt(before.socket.fcntl(Fcntl::F_DUPFD, 3), before.endpoint)
    before.close
    client = TCPSocket.new("127.0.0.1", after.port)
    after.socket.accept.first.close
    assert_nil client.read(1)
  ensure
    [client, after].compact.each(&:close)
  end

  def test_a_descriptor_of_another_kind_is_not_adopted_and_left_open
    reader, writer = IO.pipe
    socket = Socket.new(:INET, :STREAM)
    [[reader, "127.0.0.1:0"], [socket, "127.0.0.1:0"], [socket, "udp://127.0.0.1:0"], [socket, "/a.sock"]].each do |io, address|
      error = assert_raises(ArgumentError) { Gyre::Listener.adopt(io.fileno, endpoint(address)) }
      assert_match(/adopt descriptor #{io.fileno} for #{endpoint(address)}: /, error.message)
    end
    GC.start
    [reader, writer, socket].each(&:close)
  end

  private

  def endpoint(address)
    Gyre::Endpoint.parse(address, transports: Gyre::Endpoint::FORMS.keys)
  end

  def listen(address, backlog: 16)
    listeners = endpoint(address).bind(backlog: backlog)
    yield listeners.first
  ensure
    listeners&.each(&:close)
  end

  def in_folder
    Dir.mktmpdir { |folder| yield File.join(folder, "app.sock") }
  end
end
