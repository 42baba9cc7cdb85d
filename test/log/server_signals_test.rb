# frozen_string_literal: true

# The log server in a process of its own and what signals do to it: HUP, USR2 with traffic going on,
# TERM during a flood.

require "test_helper"
require "json"
require "socket"
require "tmpdir"
require "oracle/log/records"
require "gyre/log/client"
require "gyre/log/wire"
require "support/openssl_peer"
require "support/certificates"
require "support/engines"

GyreTest::Engines.test_case("LogServerSignalsTest", backends: GyreTest::Engines::NATIVE.first(1)) do
  def test_files_that_were_renamed_are_reopened
    serve do |server|
      client = server.client("web", "authentication/2 client=#{"a" * 32}")
      client.write(record(1))
      assert_equal "ack 1\n", client.gets # a line that is only there may still go into the new file
      File.rename(server.path, "#{server.path}.1")
      server.signal("HUP")
      eventually { File.exist?(server.path) }
      client.write(record(2))
      assert_equal "ack 2\n", client.gets
      assert_equal [["web|info|record 1"], ["web|info|record 2"]], ["#{server.path}.1", server.path].map { |path| server.messages(path).grep(/web/) }
      client.close
    end
  end

  # As logrotate does it: rename, signal, again and again, while messages come.
  def test_nothing_is_lost_while_files_are_renamed
    serve do |server|
      client = server.client("web")
      renamed = false
      writing = Thread.new do
        (0..).each { |number| renamed ? (break number) : client.write(frame("web", "info", number.to_s)) && breathe(number) }
      end
      5.times do |round|
        eventually { File.size?(server.path) }
        File.rename(server.path, "#{server.path}.#{round}")
        server.signal("HUP")
        eventually { File.exist?(server.path) }
      end
      renamed = true
      expected = Array.new(writing.value) { |number| "web|info|#{number}" }
      eventually { server.all_messages.grep(/\Aweb/).size == expected.size }
      assert_equal expected, server.all_messages.grep(/\Aweb/).sort_by { |line| line[/\d+/].to_i }
      client.close
    end
  end

  def test_term_in_a_flood_writes_what_came_and_ends_with_status_0
    serve(interval: 60) do |server|
      records = server.client("web", "authentication/2 client=#{"a" * 32}")
      flood = Thread.new { flood(server.client("flood")) }
      eventually { server.status["messages"] > 1000 }
      records.write(record(1) + record(2))
      server.signal("TERM")
      status = server.wait
      assert_equal 0, status.exitstatus, server.errors
      flood.join
      acknowledged = records.read[/ack (\d+)\n\z/, 1].to_i
      assert_operator server.messages.grep(/\Aflood\|info\|/).size, :>, 1000
      assert_equal (1..acknowledged).to_a, server.messages.grep(/\Aweb\|info\|record/).map { |line| line[/\d+\z/].to_i }.first(acknowledged)
      assert_equal acknowledged, 2
      records.close
    end
  end

  def test_a_stop_without_a_time_limit_writes_everything_and_a_reopening_is_done
    serve(interval: 60, limits: { stop_timeout_s: nil }) do |server|
      client = server.client("web")
      client.write(frame("web", "info", "last words"))
      eventually { server.status["messages"].positive? }
      server.signal("HUP")
      eventually { server.errors.include?("gyre log: reopened 1 file (HUP)") }
      server.signal("TERM")
      assert_equal 0, server.wait.exitstatus, server.errors
      assert_equal ["web|info|last words"], server.messages.grep(/web/)
      client.close
    end
  end

  def test_int_ends_it_as_well
    serve do |server|
      server.signal("INT")
      assert_equal 0, server.wait.exitstatus, server.errors
    end
  end

  # --- USR2 ---

  def test_a_restart_acknowledges_what_has_come_and_closes_the_connections
    serve do |server|
      half = server.client("half")
      half.write(frame("half", "info", "whole") + frame("half", "info", "in two halves")[0, 20])
      tail = server.client("", "authentication/2 tail")
      records = server.client("web", "authentication/2 client=#{"a" * 32}")
      records.write(record(1) + record(2)[0, 30])
      server.restart
      assert_equal ["", "ack 1\n"], [half, records].map(&:read)
      assert_match(/record 1$/, tail.read)

      again = server.client("web", "authentication/2 client=#{"a" * 32}")
      again.write(record(1) + record(2))
      again.each_line.find { |line| line == "ack 2\n" }
      assert_equal ["half|info|whole", "web|info|record 1", "web|info|record 2"], server.messages.sort
      [half, tail, records, again].each(&:close)
    end
  end

  def test_a_client_that_sends_on_during_a_restart_gets_the_acknowledgement_of_all_that_is_stored
    all_that_is_stored_is_acknowledged(&:restart)
  end

  def test_a_client_that_sends_on_during_a_stop_gets_the_acknowledgement_of_all_that_is_stored
    all_that_is_stored_is_acknowledged do |server|
      server.signal("TERM")
      server.wait
    end
  end

  def test_a_client_loses_nothing_and_no_connection_is_refused_through_restarts
    serve do |server|
      stop = false
      logging = Thread.new { log_numbers(server.port) { stop } }
      connecting = Thread.new { connect_often(server) { stop } }
      3.times { server.restart }
      stop = true
      sent, connections = logging.value, connecting.value
      assert_equal (1..sent).map { |number| "web|info|#{number}" }, server.messages.grep(/\Aweb/)
      assert_predicate connections, :positive?
      server.signal("TERM")
      assert_equal 0, server.wait.exitstatus, server.errors
    end
  end

  def test_connections_with_tls_are_closed_in_order_at_a_restart
    Dir.mktmpdir do |folder|
      certificate, key = GyreTest::Certificates.new(folder).issue("server")
      serve(tls: { cert: certificate, key: key }) do |server|
        former = secure(server)
        former.write(frame("web", "authentication", "") + frame("web", "info", "before"))
        assert_equal "accepted\n", former.gets
        server.restart
        assert_nil former.gets # an end without close_notify would be an error
        later = secure(server)
        later.write(frame("web", "authentication", "") + frame("web", "info", "after"))
        eventually { server.messages == %w[web|info|before web|info|after] }
        [former, later].each(&:close)
      end
    end
  end

  def test_a_restart_that_would_fail_is_called_off
    serve(check: "the configuration is wrong") do |server|
      client = server.client("web")
      server.signal("USR2")
      eventually { server.errors.include?("not restarted: the configuration is wrong") }
      client.write(frame("web", "info", "as before"))
      eventually { server.messages == ["web|info|as before"] }
      client.close
    end
  end

  private

  # With unread bytes in the socket, a close would be a reset: a client whose writing fails reads no
  # acknowledgement any more.
  def all_that_is_stored_is_acknowledged
    skip "Linux's TCP_INFO tells that a stream has ended before anything reads it" unless RUBY_PLATFORM.include?("linux")
    serve do |server|
      client = server.client("web", "authentication/2 client=#{"a" * 32}")
      ending = Thread.new { yield server if client.wait_readable }
      1.step(by: 100) do |number|
        client.write((number...(number + 100)).map { |each| record(each) }.join)
        break if client.getsockopt(:TCP, Socket::TCP_INFO).data.unpack1("C") == 8 # CLOSE_WAIT
      end
      acknowledged = client.each_line.filter_map { |line| line[/ack (\d+)/, 1] }.last.to_i
      client.close
      ending.join
      assert_equal acknowledged, server.messages.size
    end
  end

  def serve(**settings)
    Dir.mktmpdir do |folder|
      server = Program.new(folder, settings, ruby_command(File.expand_path("../support/log_program.rb", __dir__)))
      yield server
    ensure
      server&.close { |pid| finish_process(pid) }
    end
  end

  def secure(server)
    client = OpenSSL::SSL::SSLSocket.new(server.connect, GyreTest::OpenSSLPeer.client(verify: false))
    client.sync_close = true
    client.connect
  end

  def frame(*parts)
    Gyre::Log::Wire.frame(*parts)
  end

  def record(number)
    Gyre::Log::Records.encode(seq: number, time_us: 1_700_000_000_000_000, service: "web", severity: "info", message: "record #{number}")
  end

  def flood(client)
    bytes = frame("flood", "info", "x" * 80) * 500
    loop { client.write(bytes) }
  rescue SystemCallError
    client.close
  end

  # All the time, but not as much as there may be: it all has to be read in the end.
  def breathe(number)
    sleep 0.001 if (number % 10).zero?
  end

  # All acknowledged in the end.
  def log_numbers(port)
    Dir.mktmpdir do |folder|
      client = Gyre::Log::Client.new("web", port: port, spool: folder, report: ->(_) {})
      number = 0
      client.info((number += 1).to_s) && breathe(number) until yield
      assert client.flush(45)
      number
    ensure
      client&.close
    end
  end

  def connect_often(server)
    (1..).each do |number|
      server.connect.close
      return number if yield

      breathe(number)
    end
  end
end

# The program of test/support/log_program.rb, running.
class Program
  attr_reader :path, :port

  def initialize(folder, settings, command)
    @folder = folder
    @path = File.join(folder, "log")
    @errors = File.join(folder, "errors")
    @out, out = IO.pipe
    settings = { bind: "tcp://127.0.0.1:0", default_log: { logfile: @path }, interval: 0.01 }.merge(settings)
    @pid = Process.spawn(*command, JSON.generate(settings), in: File::NULL, out: out, err: @errors, pgroup: true)
    out.close
    read_port
  end

  def read_port
    raise "the program does not start: #{errors}" unless @out.wait_readable(45) && (line = @out.gets)

    @port, pid = line.split.map(&:to_i)
    raise "it has another process id" unless pid == @pid
  end

  def signal(name)
    Process.kill(name, @pid)
  end

  # Restarts it, and waits until it serves.
  def restart
    former = @port
    signal("USR2")
    read_port
    raise "it has another port" unless @port == former
  end

  def connect
    TCPSocket.new("127.0.0.1", @port)
  end

  def client(service, words = "authentication")
    connect.tap do |socket|
      socket.write(Gyre::Log::Wire.frame(service, words, ""))
      response = socket.gets
      raise "the server responds #{response.inspect}" unless response&.start_with?("accepted")
    end
  end

  def status
    client = client("", "authentication/2 status")
    JSON.parse(client.read)
  ensure
    client&.close
  end

  def messages(path = @path)
    return [] unless File.exist?(path)

    File.binread(path).scan(/.*\n/).map { |line| line.chomp[20..] }
  end

  def all_messages
    Dir[File.join(@folder, "log*")].grep_v(/journal/).flat_map { |path| messages(path) }
  end

  def errors
    File.binread(@errors).force_encoding(Encoding::UTF_8)
  end

  def wait
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 45
    until (status = Process.wait2(@pid, Process::WNOHANG)&.last)
      raise "it does not end: #{errors}" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline

      sleep 0.005
    end
    @ended = true
    status
  end

  def close
    yield @pid unless @ended
    @out.close
  end
end
