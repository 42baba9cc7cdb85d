# frozen_string_literal: true

# `gyre log` when there is no room for its file: it reports that, reads no more, answers questions,
# and goes on when there is room; then each record is there once. A limit on the size of files
# (RLIMIT_FSIZE) stands for the disk: it can be had everywhere.

require "test_helper"
require "json"
require "socket"
require "tmpdir"
require "yaml"
require "oracle/log/records"
require "gyre/log/wire"

class LogFullDiskTest < Minitest::Test
  ID = "0123456789abcdef0123456789abcdef"
  RECORDS = 40_000
  ROOM_BYTES = 300_000

  def test_the_server_stops_reading_until_there_is_room
    prlimit = need_program("prlimit")
    Dir.mktmpdir do |folder|
      with_server(folder) do |pid, port, err|
        client = connect(port, "authentication/2 client=#{ID}")
        sender = Thread.new { RECORDS.times { |index| client.write(record(index + 1)) } }
        assert_equal "gyre log: #{folder}/a.log: disk full, cannot write: File too large; nothing is dropped, it is tried again\n", err.gets
        read = -1
        # It reads no more; the sender waits, or the kernel of this machine has taken all.
        eventually { read == (read = status(port)["bytes"]) && sender.status != "run" }
        assert_match(/disk full/, status(port)["outputs"][0]["trouble"])
        assert_operator read, :<, 4_000_000
        acknowledged = last_acknowledged(client)
        assert system(prlimit, "--pid", pid.to_s, "--fsize=unlimited")
        sender.join
        acknowledged = client.gets[/\Aack (\d+)$/, 1].to_i until acknowledged == RECORDS
        assert_match(/a\.log: there is room again after/, err.gets)
        client.close
      end
      numbers = File.binread("#{folder}/a.log").scan(/message (\d+) /).flatten.map(&:to_i)
      assert_equal (1..RECORDS).to_a, numbers
    end
  end

  private

  def with_server(folder)
    config = File.join(folder, "log.yml")
    File.write(config, YAML.dump("port" => 0, "interval" => 0.01, "default_log" => "#{folder}/a.log",
                                 "limits" => { "memory_bytes_limit" => 1_000_000 }))
    _, hard = Process.getrlimit(:FSIZE)
    with_subprocess(*ruby_command(EXE, "log", "-c", config), rlimit_fsize: [ROOM_BYTES, hard]) do |pid, _, err|
      line = err.gets
      yield pid, line[/listens on \S+:(\d+)/, 1]&.to_i || flunk(line), err
    end
  end

  def connect(port, words)
    socket = TCPSocket.new("127.0.0.1", port)
    socket.write(Gyre::Log::Wire.frame("", words, ""))
    assert_match(/\Aaccepted 2/, socket.gets)
    socket
  end

  def status(port)
    socket = connect(port, "authentication/2 status")
    JSON.parse(socket.read)
  ensure
    socket&.close
  end

  def record(number)
    Gyre::Log::Records.encode(seq: number, time_us: 1, service: "web", severity: "info", message: "message #{number} #{"x" * 100}")
  end

  # What has come by now.
  def last_acknowledged(client)
    client.read_nonblock(100_000, exception: false).to_s[/ack (\d+)\n\z/, 1].to_i
  end
end
