# frozen_string_literal: true

# Gyre::Log::Output::SocketOutput: connections that are not there yet, break, stand still.

require "test_helper"
require "support/engines"
require "socket"
require "tmpdir"
require "gyre"
require "gyre/log/output/socket_output"

GyreTest::Engines.test_case("LogOutputSocketTest", backends: GyreTest::Engines::NATIVE.first(1)) do
  const_set(:LINES, Array.new(20_000) { |index| "line #{index}\n" }.join.freeze)

  def setup
    @said = []
  end

  def test_analoggers_hosts_become_addresses
    { ["a", [1]] => "tcp://a:1", ["a:1", nil] => "tcp://a:1", ["/a", nil] => "unix:///a", ["tcp://[::1]:1", nil] => "tcp://[::1]:1" }
      .each { |arguments, address| assert_equal address, Gyre::Log::Output::SocketOutput.parse(*arguments).to_s }
    [nil, [], ["x"]].each { |options| assert_match(/needs tcp/, refusal("a", options)) }
    %w[tcp:// tcp://a tcp://a:0 tcp://:1 tcp://*:1 tcp://a:65536 unix:// unix:/// udp://a:1].each do |address|
      assert_match(/is (?:no|not an) address/, refusal(address), address)
    end
  end

  def test_lines_arrive_over_tcp_and_unix
    each_server do |server, address|
      read = +""
      Gyre.run do |task|
        task.async do
          client = server.accept
          read << client.readpartial(10_000) until read.end_with?("end\n")
          client.close
        end
        output = open_output(address)
        output.write(self.class::LINES)
        output.write("end\n")
        output.close
      end
      assert_equal "#{self.class::LINES}end\n", read
      assert_empty @said
    end
  end

  def test_it_waits_for_the_server
    Dir.mktmpdir do |folder|
      path = File.join(folder, "socket")
      Gyre.run do |task|
        output = open_output("unix://#{path}")
        writing = task.async { output.write("one\n") }
        eventually { output.trouble }
        server = UNIXServer.new(path)
        client = server.accept
        assert_equal "one\n", client.gets
        writing.wait
        assert_nil output.trouble
        [output, client, server].each(&:close)
      end
      assert_match(/cannot send to it: No such file or directory; nothing is dropped/, @said[0])
      assert_match(/it works again/, @said[1])
    end
  end

  def test_between_two_batches_a_broken_connection_loses_nothing
    each_server do |server, address|
      Gyre.run do
        output = open_output(address)
        3.times do |index|
          writing = Gyre::Task.current.async { output.write("batch #{index}\n") }
          client = server.accept
          assert_equal "batch #{index}\n", client.gets
          client.close
          writing.wait
        end
        output.close
      end
    end
  end

  def test_a_connection_that_breaks_in_the_middle_gets_the_whole_batch_again
    each_server do |server, address|
      Gyre.run do |task|
        output = open_output(address)
        writing = task.async { output.write(self.class::LINES * 50) }
        client = server.accept
        client.readpartial(100)
        client.close
        client = server.accept
        read = +""
        read << client.readpartial(100_000) until read.bytesize >= self.class::LINES.bytesize * 50
        assert_equal self.class::LINES * 50, read
        writing.wait
        [client, output].each(&:close)
      end
    end
  end

  def test_a_peer_that_does_not_read_keeps_the_batch_here_and_the_loop_goes_on
    each_server do |server, address|
      Gyre.run do |task|
        output = open_output(address)
        writing = task.async { output.write(self.class::LINES * 50) }
        client = server.accept
        sleep 0.02
        refute writing.finished?
        read = 0
        read += client.readpartial(100_000).bytesize until read == self.class::LINES.bytesize * 50
        writing.wait
        [client, output].each(&:close)
      end
    end
  end

  def test_a_peer_that_never_stops_sending_holds_up_no_other
    reads = 0
    flood = Object.new
    flood.define_singleton_method(:read_available) { |*| (reads += 1) < 1000 ? "x" : raise("it reads on and on") }
    refute open_output("tcp://127.0.0.1:1").send(:ended?, flood)
  end

  def test_an_invalid_address
    ["tcp://host", "unix://", "host"].each { |address| assert_raises(ArgumentError, address) { open_output(address) } }
  end

  private

  def refusal(*arguments) = assert_raises(ArgumentError) { Gyre::Log::Output::SocketOutput.parse(*arguments) }.message

  def open_output(address)
    Gyre::Log::Output::SocketOutput.from(address, {}, report: @said.method(:push), longest_pause_s: 0.01)
  end

  def each_server
    server = TCPServer.new("127.0.0.1", 0)
    server.setsockopt(:SOCKET, :RCVBUF, 65_536) # some machines keep 40 MB of what is not read
    yield server, "tcp://127.0.0.1:#{server.addr[1]}"
    server.close
    Dir.mktmpdir do |folder|
      path = File.join(folder, "socket")
      server = UNIXServer.new(path)
      yield server, "unix://#{path}"
    end
  ensure
    server.close
  end
end
