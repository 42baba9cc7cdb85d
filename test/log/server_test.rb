# frozen_string_literal: true

# The log server as its clients meet it, over sockets: both wires, what goes wrong on them, and the
# limits.

require "test_helper"
require "json"
require "zlib"
require "oracle/log/records"
require "support/engines"
require "support/log_server"

GyreTest::Engines.test_case("LogServerTest", backends: GyreTest::Engines::NATIVE.first(1)) do
  # --- the old wire ---

  def test_frames_become_lines_of_the_file
    serve do |server|
      client = server.client("web")
      client.write(frame("web", "info", "hello") + frame("db", "error", "gone") + frame("web", "info", "¡holà!"))
      eventually { server.lines == ["web|info|hello", "db|error|gone", "web|info|¡holà!"] }
      client.close
      assert_equal "", server.report
    end
  end

  def test_a_connection_may_come_byte_by_byte
    serve do |server|
      client = server.connect
      (frame("web", "authentication", "") + frame("web", "info", "hello")).each_char { |byte| client.write(byte) }
      eventually { server.lines == ["web|info|hello"] }
      assert_equal "accepted\n", client.gets
      client.close
    end
  end

  def test_what_follows_the_first_frame_at_once_counts
    serve do |server|
      client = server.connect
      client.write(frame("web", "authentication", "") + frame("web", "info", "1") + frame("web", "info", "2")[0..-2])
      assert_equal "accepted\n", client.gets
      eventually { server.lines == ["web|info|1"] }
      client.write("2")
      eventually { server.lines == ["web|info|1", "web|info|2"] }
      client.close
    end
  end

  def test_many_wrong_keys_from_an_address_are_denied_late_and_right_ones_accepted_at_once
    serve(key: "secret") do |server|
      denials = server.server.instance_variable_get(:@hub).handshake.denials
      wrong = lambda do
        server.connect.tap { |client| client.write(frame("web", "authentication", "wrong")) }
      end
      answered = ->(client) { client.read.tap { client.close } }
      10.times { assert_equal "denied\n", answered.call(wrong.call) }
      denials.instance_variable_set(:@delay_s, 3600)
      waiting = wrong.call
      eventually { server.lines.size == 11 }
      assert_match(/: the key is wrong, 11 times within 60 s: /, server.lines.last)
      waiting.write(frame("web", "authentication", "secret"))
      server.client("web", key: "secret").tap { |client| client.write(frame("web", "info", "right")) }.close
      eventually { server.lines.last == "web|info|right" }
      assert_equal :wait_readable, waiting.read_nonblock(1, exception: false)
      denials.instance_variable_set(:@delay_s, 0.01)
      assert_equal "denied\n", answered.call(wrong.call)
      assert_equal 12, server.lines.size, "the others are not reported"
      waiting.close
    end
  end

  def test_the_key_counts_in_full
    serve(key: "secret") do |server|
      ["", "secre", "secret ", "Secret", "secretsecret", "x" * 7000].each do |key|
        client = server.connect
        client.write(frame("web", "authentication", key))
        assert_equal "denied\n", client.read, key
        client.close
      end
      server.client("web", key: "secret").close
      eventually { server.lines.size == 6 }
      assert_match(/\Agyre\|warn\|127\.0\.0\.1:\d+: the key is wrong\z/, server.lines.first)
      refute_includes server.lines.join, "secre"
    end
  end

  def test_wrong_frames_end_their_connection_with_the_wires_words
    serve do |server|
      other = server.client("other")
      { "00200021:web:info:hello" => "checksum failed", "00000000" => "checksum failed", "é0110011" => "checksum failed",
        "99999999:" => "max length exceeded", "GET / HTTP/1.1\r\n\r\n" => "checksum failed" }.each do |bytes, error|
        [server.connect, server.client("web")].each do |client|
          client.write(bytes)
          assert_equal "error: #{error}\n", client.read, bytes
          client.close
        end
      end
      other.write(frame("other", "info", "still here"))
      eventually { server.lines.include?("other|info|still here") }
      assert_equal 10, server.lines.grep(/\Agyre\|warn\|127\.0\.0\.1:\d+: (?:checksum failed|max length exceeded)\z/).size
      other.close
    end
  end

  def test_a_client_that_floods_on_after_its_fault_reads_the_error_line
    serve do |server|
      client = server.client("web")
      client.write("#{"x" * 100}#{"y" * 500_000}")
      assert_equal "error: checksum failed\n", client.gets
      client.close
    end
  end

  def test_a_truncated_frame_is_reported_with_its_peer
    serve do |server|
      client = server.client("web")
      client.write(frame("web", "info", "hello")[0..-3])
      name = "127.0.0.1:#{client.local_address.ip_port}"
      client.close
      early = server.connect
      early.write("0023")
      early.close
      eventually { server.lines.size == 2 }
      assert_includes server.lines, "gyre|warn|#{name}: frame cut off"
      assert_equal 1, server.lines.grep(/cut off in its first frame/).size
      server.connect.close # a probe of whether the port is open
      server.client("web").close
      assert_equal 2, server.lines.size
    end
  end

  def test_a_half_closed_client_is_told_its_frame_was_truncated
    serve do |server|
      records = "authentication/2 client=#{"0" * 32}"
      { server.client("web") => frame("web", "info", "hello")[0..-3], server.connect => "0023",
        server.client("web", words: records) => "GL" }.each do |client, bytes|
        client.write(bytes)
        client.close_write
        assert_equal "error: frame cut off\n", client.read, bytes
        client.close
      end
      eventually { server.lines.size == 3 }
    end
  end

  def test_a_silent_client_is_closed_in_time
    serve(limits: { authentication_timeout_s: 0.1 }) do |server|
      silent = server.connect
      slow = server.connect
      slow.write("00")
      assert_equal ["error: no authentication within 0.1 s\n"] * 2, [silent.read, slow.read]
      eventually { server.lines.grep(/no authentication within 0\.1 s/).size == 2 }
      [silent, slow].each(&:close)
    end
  end

  def test_an_authenticated_client_may_be_silent_unless_a_limit_is_set
    serve(limits: { authentication_timeout_s: 0.1, idle_timeout_s: 0.2 }) do |server|
      client = quick_client(server)
      assert_equal "error: nothing came for 0.2 s\n", client.read
      client.close
    end
    serve(limits: { authentication_timeout_s: 0.1 }) do |server|
      client = quick_client(server)
      later = server.connect
      assert_match(/\Aerror: no authentication/, later.read) # so that time is over for both
      client.write(frame("web", "info", "still here"))
      eventually { server.lines.include?("web|info|still here") }
      [client, later].each(&:close)
    end
  end

  def test_more_connections_than_allowed_get_an_error
    serve(limits: { connections_limit: 2 }) do |server|
      clients = Array.new(2) { server.client("web") }
      late = server.connect
      assert_equal "error: too many connections\n", late.read
      late.close
      clients.pop.close
      eventually { server.server.status[:connections] == 1 }
      clients << server.client("web")
      clients.each(&:close)
    end
  end

  def test_complaints_do_not_flood_the_log
    serve(limits: { complaints_limit: 3 }) do |server|
      sent = 0
      reported = -> { server.lines.grep(/checksum failed/).size }
      left_out = -> { server.lines.sum { |line| line[/\Agyre\|warn\|(\d+) more complaints/, 1].to_i } }
      eventually do
        40.times { server.connect.tap { |client| client.write("x" * 8) }.tap(&:read).close }
        sent += 40
        left_out.call.positive?
      end
      eventually { reported.call + left_out.call == sent }
      assert_operator reported.call, :<, sent
    end
  end

  # --- acknowledged records ---

  def test_records_are_acknowledged_when_they_are_in_the_file
    serve do |server|
      client = server.client("web", words: "authentication/2 client=#{id}")
      client.write(records(1..3))
      client.each_line.find { |line| line == "ack 3\n" }
      assert_equal ["web|info|message 1", "web|info|message 2", "web|info|message 3"], server.lines
      client.close
    end
  end

  def test_a_record_of_the_usual_size_is_taken_whatever_the_limit
    serve(limits: { message_bytes_limit: 1000 }) do |server|
      client = server.client("web", words: "authentication/2 client=#{id}")
      client.write(Gyre::Log::Records.encode(seq: 1, time_us: 0, service: "web", severity: "info", message: "x" * 5000))
      assert_equal "ack 1\n", client.gets
      client.close
    end
  end

  def test_records_that_come_again_are_acknowledged_and_not_stored_twice
    serve do |server|
      2.times do
        client = server.client("web", words: "authentication/2 client=#{id}")
        client.write(records(1..3))
        client.each_line.find { |line| line == "ack 3\n" }
        client.close
      end
      assert_equal 3, server.lines.size
    end
  end

  def test_what_is_stored_is_known_after_a_restart
    Dir.mktmpdir do |folder|
      first = GyreTest::LogServer.new(folder: folder)
      client = first.client("web", words: "authentication/2 client=#{id}")
      client.write(records(1..3))
      client.each_line.find { |line| line == "ack 3\n" }
      client.close
      first.stop
      GyreTest::LogServer.open(folder: folder) do |second|
        client = second.client("web", words: "authentication/2 client=#{id}")
        client.write(records(2..5))
        client.each_line.find { |line| line == "ack 5\n" }
        client.close
        assert_equal (1..5).map { |number| "web|info|message #{number}" }, second.lines
      end
    end
  end

  # The client was away, and repeats what it has no acknowledgement for.
  def test_what_is_stored_is_known_after_a_restart_that_gives_the_service_another_file
    Dir.mktmpdir do |folder|
      files = %w[one two].map { |name| File.join(folder, "#{name}.log") }
      files.zip([1..3, 2..5]).each do |file, numbers|
        GyreTest::LogServer.open(folder: folder, logs: [{ services: ["web"], logfile: file }]) do |server|
          client = server.client("web", words: "authentication/2 client=#{id}")
          client.write(records(numbers))
          client.each_line.find { |line| line == "ack #{numbers.last}\n" }
          client.close
        end
      end
      assert_equal [[1, 2, 3], [4, 5]], files.map { |file| File.readlines(file).map { |line| line[/\d+$/].to_i } }
    end
  end

  def test_a_half_closed_client_still_gets_its_acknowledgement
    serve do |server|
      client = server.client("web", words: "authentication/2 client=#{id}")
      client.write(records(1..2000))
      client.close_write
      assert_equal "ack 2000\n", client.read.lines.last
      client.close
    end
  end

  def test_a_newer_connection_of_a_client_takes_the_place_of_the_older
    serve do |server|
      older = server.client("web", words: "authentication/2 client=#{id}")
      newer = server.client("web", words: "authentication/2 client=#{id.upcase}")
      assert_match(/\Aerror: replaced by a newer connection/, older.read)
      newer.write(records(1..1))
      assert_equal "ack 1\n", newer.gets
      [older, newer].each(&:close)
    end
  end

  def test_a_client_that_reads_no_acknowledgement_takes_no_memory
    serve do |server|
      client = server.client("web", words: "authentication/2 client=#{id}")
      client.setsockopt(:SOCKET, :RCVBUF, 1024)
      1.upto(500) { |number| client.write(records(number..number)) }
      eventually { server.lines.size == 500 }
      connection = server.server.instance_variable_get(:@hub).connections.keys.first
      assert_operator connection.instance_variable_get(:@transport).unsent_bytes, :<, 100
      client.each_line.find { |line| line == "ack 500\n" }
      client.close
    end
  end

  def test_wrong_records_end_their_connection
    serve do |server|
      broken = records(1..1).tap { |bytes| bytes.setbyte(30, bytes.getbyte(30) ^ 1) }
      zero = records(1..1).tap { |bytes| bytes[8, 8] = "\0" * 8 }.tap { |bytes| bytes[4, 4] = [Zlib.crc32(bytes[8..])].pack("N") }
      [broken, "\xFF" * 30, zero].each do |bytes|
        client = server.client("web", words: "authentication/2 client=#{id}")
        client.write(bytes)
        assert_match(/\Aerror: .+\n\z/, client.read)
        client.close
      end
      eventually { server.lines.grep(/\Agyre\|warn\|127\.0\.0\.1:\d+: /).size == 3 }
    end
  end

  def test_unknown_words_are_refused
    serve do |server|
      { "authentication/3 client=#{id}" => "unknown protocol version 3", "authentication/2" => "malformed authentication",
        "authentication/2 client=abc" => "malformed authentication", "authentication/2 follow" => "malformed authentication" }.each do |words, error|
        client = server.connect
        client.write(frame("web", words, ""))
        assert_equal "error: #{error}\n", client.read
        client.close
      end
    end
  end

  # --- followers and the status ---

  def test_lines_are_followed_live
    serve do |server|
      all = server.client("", words: "authentication/2 tail")
      web = server.client("web", words: "authentication/2 tail")
      client = server.client("web")
      client.write(frame("db", "info", "one") + frame("web", "info", "two"))
      assert_match(/\|db\|info\|one\n\z/, all.gets)
      assert_match(/\|web\|info\|two\n\z/, all.gets)
      assert_match(/\|web\|info\|two\n\z/, web.gets)
      [all, web, client].each(&:close)
      eventually { server.server.status[:connections].zero? }
    end
  end

  def test_a_slow_follower_loses_lines_and_is_sent_their_number
    serve(limits: { tail_bytes_limit: 4000 }) do |server|
      follower = server.client("", words: "authentication/2 tail")
      client = server.client("web")
      count = 50_000
      (0...count).each_slice(100) { |numbers| client.write(numbers.map { |number| frame("web", "info", "#{number} #{"x" * 100}") }.join) }
      eventually { server.server.status[:messages] == count }
      got = lost = 0
      while got + lost < count && follower.wait_readable(30)
        dropped = follower.gets[/\A(\d+) lines? (?:was|were) dropped here/, 1]
        dropped ? lost += dropped.to_i : got += 1
      end
      assert_operator lost, :>, 0
      assert_equal count, got + lost
      [follower, client].each(&:close)
    end
  end

  def test_followers_are_limited
    serve(limits: { tailers_limit: 1 }) do |server|
      follower = server.client("", words: "authentication/2 tail")
      late = server.connect
      late.write(frame("", "authentication/2 tail", ""))
      assert_equal "error: too many follow the log already\n", late.read
      [follower, late].each(&:close)
    end
  end

  # An acknowledged message that nothing wrote would be lost.
  def test_unknown_severities_and_messages_that_repeat_are_written
    Dir.mktmpdir do |folder|
      GyreTest::LogServer.open(folder: folder, default_log: "#{folder}/log") do |server|
        client = server.client("web")
        client.write((frame("web", "notice", "same") * 2) + frame("web", "", "") + frame("web", "info", "last"))
        eventually { server.lines.size == 4 }
        assert_equal ["web|notice|same", "web|notice|same", "web||", "web|info|last"], server.lines
        client.close
      end
    end
  end

  def test_the_status_is_one_line_of_json
    serve(levels: %w[info]) do |server|
      client = server.client("web")
      client.write(frame("web", "info", "hello") + frame("wéb", "nonsense", "dropped"))
      eventually { server.lines.size == 1 }
      asking = server.client("", words: "authentication/2 status")
      status = JSON.parse(asking.gets)
      assert_nil asking.gets
      assert_equal [2, 1, 2, Process.pid], status.values_at("messages", "filtered", "connections", "pid")
      assert_equal({ "web" => 1, "wéb" => 1 }, status["services"])
      assert_equal %w[1 10 60], status["rates"].keys
      assert_includes status["clients"].map { |one| one["kind"] }, "analogger"
      assert_equal 1, status["outputs"].size
      assert_equal %w[p50 p99 max].sort, status["loop_lag_s"].keys.sort
      [client, asking].each(&:close)
    end
  end

  # --- the end ---

  def test_what_is_in_the_sockets_is_written_at_the_end
    server = GyreTest::LogServer.new(interval: 60)
    clients = Array.new(20) { |number| server.client("web#{number}") }
    clients.each { |client| client.write(frame("web", "info", "hello") * 500) }
    server.server.stop
    assert_equal true, server.wait
    assert_equal 10_000, server.lines.grep("web|info|hello").size
    assert_equal "", server.report
    assert_equal [nil], clients.map(&:gets).uniq
    clients.each(&:close)
  ensure
    server&.stop
  end

  def test_acknowledged_clients_get_the_last_number_at_the_end
    server = GyreTest::LogServer.new(interval: 60)
    client = server.client("web", words: "authentication/2 client=#{id}")
    client.write(records(1..1000))
    server.server.stop
    assert_equal "ack 1000\n", client.read.lines.last
    assert_equal true, server.wait
    client.close
  ensure
    server&.stop
  end

  private

  def serve(**settings, &block)
    GyreTest::LogServer.open(**settings, &block)
  end

  # A busy machine may need more than one attempt to authenticate in a short time.
  def quick_client(server)
    eventually do
      server.client("web")
    rescue RuntimeError => error
      raise unless error.message.include?("no authentication")
    end
  end

  def id
    "0123456789abcdef0123456789abcdef"
  end

  def frame(*parts)
    Gyre::Log::Wire.frame(*parts)
  end

  def records(numbers)
    numbers.map do |number|
      Gyre::Log::Records.encode(seq: number, time_us: 1_700_000_000_000_000, service: "web", severity: "info", message: "message #{number}")
    end.join
  end
end
