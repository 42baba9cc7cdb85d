# frozen_string_literal: true

# What goes wrong with Analogger 1.1.0, and does not with Gyre: each test runs one scenario with
# both, as programs, and demands that Analogger fails (so that the scenario is one) and that Gyre
# does not.

require "test_helper"
require "securerandom"
require_relative "peers"

class LogFaultsTest < Minitest::Test
  include GyreTest::LogPeers

  ANALOGGER = GyreTest::LogPeers::ANALOGGER
  GYRE = GyreTest::LogPeers::GYRE

  # Runs the block with each, at once.
  def both
    threads = [ANALOGGER, GYRE].map { |peer| Thread.new { yield peer } }
    threads.each { |thread| thread.report_on_exception = false }
    threads.map(&:value)
  end

  # Logs messages with a client of the peer, and one more until it is in the file: by then the
  # others are, or never will be.
  def after_all(server, client)
    marks = []
    eventually(within_s: 30, what: "a last message through #{server.peer}") do
      client.log("mark #{SecureRandom.hex(8)}".tap { |mark| marks << mark })
      sleep 0.1 # for the reconnection, which waits as long
      (server.messages & marks).any? # not one of an earlier call
    end
    server.messages.grep_v(/\Amark/)
  end

  def test_1_a_message_that_is_not_ascii_arrives_and_so_does_what_follows
    theirs, ours = both do |peer|
      server = log_server(peer)
      client = log_client(peer, server.folder, server.port)
      client.log("ééé")
      client.log("after it")
      after_all(server, client)
    end
    refute_includes theirs, "ééé".b
    assert_equal ["ééé".b, "after it"], ours
  end

  def test_2_messages_longer_than_a_frame_arrive_and_so_does_what_follows
    long = ["x" * 9000, "y" * 10_000, "z" * 100_000]
    theirs, ours = both do |peer|
      server = log_server(peer)
      client = log_client(peer, server.folder, server.port)
      client.log(*long, "after it")
      after_all(server, client)
    end
    assert_empty theirs & long
    assert_equal [*long, "after it"], ours
  end

  # Two outages: what is logged in each, and between them.
  def outages(peer)
    server = log_server(peer)
    client = log_client(peer, server.folder, server.port)
    client.log("before")
    eventually { server.messages.any? }
    %w[first second].each do |outage|
      server.stop
      client.log(*(1..4).map { |number| "#{outage} #{number}" })
      server.start
      after_all(server, client)
    end
    server.messages.grep_v(/\Amark/)
  end

  def test_3_the_message_that_finds_the_server_gone_is_not_lost_and_4_a_second_outage_is_as_the_first
    theirs, ours = both { |peer| outages(peer) }
    assert_empty theirs & ["first 1", "first 2"], "the first goes into a dead connection, the second one's write fails"
    assert_empty theirs.grep(/second/)
    assert_equal ["before", *%w[first second].product((1..4).to_a).map { |words| words.join(" ") }], ours
  end

  def test_5_what_was_kept_during_an_outage_survives_a_cut_while_it_is_sent
    theirs, ours = both do |peer|
      server = log_server(peer)
      port = free_port
      client = log_client(peer, server.folder, port)
      client.log("kept 1", "kept 2", "kept 3")
      proxy = GyreTest::LogPeers::CuttingProxy.new(server.port).listen(port)
      @started << -> { proxy.close }
      after_all(server, client)
    end
    assert_empty theirs
    assert_equal ["kept 1", "kept 2", "kept 3"], ours
  end

  def test_6_a_wrong_key_is_an_error_that_the_caller_sees
    theirs, ours = both do |peer|
      server = log_server(peer, { "key" => "sesame" })
      run_client(peer, server.folder, <<~'RUBY', server.port).out
        begin
          client = new_client(ARGV[0], "wrong")
          client.log("info", "lost")
          client.respond_to?(:flush) ? client.flush(20) : sleep(0.2)
          print "no error"
        rescue StandardError => error
          print error.class
        end
        $stdout.flush
        exit!
      RUBY
    end
    assert_equal "no error", theirs
    assert_match(/Authenticat|Denied|Key/, ours)
  end

  def test_6_reconnect_reconnects
    theirs, ours = both do |peer|
      server = log_server(peer)
      run_client(peer, server.folder, <<~'RUBY', server.port).out
        client = new_client(ARGV[0])
        begin
          client.reconnect
          client.log("info", "again")
          client.close
          print "done"
        rescue StandardError => error
          print error.class
        end
        $stdout.flush
        exit!
      RUBY
    end
    assert_equal "ArgumentError", theirs
    assert_equal "done", ours
  end

  def test_7_what_the_client_takes_for_stored_survives_a_kill_of_the_server
    theirs, ours = both do |peer|
      server = log_server(peer, { "interval" => 3600 })
      client = run_client(peer, server.folder, <<~'RUBY', server.port)
        client = new_client(ARGV[0])
        100.times { |number| client.log("info", "message #{number}") }
        # What each has to say that all is well.
        client.respond_to?(:flush) ? print(client.flush(20)) : print(client.authenticated? && client.total_count)
      RUBY
      assert_includes %w[true 101], client.out, client.err # Analogger counts its authentication
      server.stop(:KILL)
      server.messages
    end
    assert_empty theirs
    assert_equal Array.new(100) { |number| "message #{number}" }, ours
  end

  def test_8_term_with_messages_in_the_queue_is_a_normal_end
    theirs, ours = both do |peer|
      server = log_server(peer, { "interval" => 30 })
      log_raw(server, ["a", "info", "in the queue"])
      [server.stop(:TERM).exitstatus, server.messages, server.read("err")[/undefined local variable or method .levels/]]
    end
    assert_equal [1, ["in the queue"]], theirs[0, 2]
    refute_nil theirs[2]
    assert_equal [0, ["in the queue"], nil], ours
  end

  # Sends frames by hand, and waits until the server has them.
  def log_raw(server, *frames)
    server.connect do |socket|
      socket.write(GyreTest::LogPeers.frame("a", "authentication", ""))
      assert_equal "accepted\n", socket.gets
      frames.each { |frame| socket.write(GyreTest::LogPeers.frame(*frame)) }
      socket.close_write
      socket.read # it hangs up when it has read all
    end
  end

  def test_9_a_single_severity_as_levels_is_not_an_end_of_the_server
    logs = [{ "service" => "a", "levels" => "info", "logfile" => "a.log" }]
    theirs, ours = both do |peer|
      server = log_server(peer, { "logs" => logs })
      log_raw(server, ["a", "info", "through"])
      eventually { server.gone? || server.messages("a.log").any? }
      [server.gone?, server.messages("a.log")]
    end
    assert_equal [true, []], theirs
    assert_equal [false, ["through"]], ours
  end

  def test_9_severities_may_have_spaces_between_them
    logs = [{ "service" => "a", "levels" => "info, warn", "logfile" => "a.log" }]
    theirs, ours = both do |peer|
      server = log_server(peer, { "logs" => logs })
      log_raw(server, ["a", "warn", "through"], ["a", "info", "last"])
      eventually { server.messages("a.log").include?("last") }
      server.messages("a.log")
    end
    assert_equal ["last"], theirs
    assert_equal %w[through last], ours
  end

  def test_10_standard_output_that_is_not_read_for_a_while_does_not_end_the_server
    messages = Array.new(400) { |number| "#{number} #{"x" * 1000}" }
    theirs, ours = both do |peer|
      IO.pipe do |reader, writer|
        server = log_server(peer, { "default_log" => "-" }, out: writer)
        writer.close
        client = Thread.new do
          log_raw(server, *messages.map { |message| ["a", "info", message] })
        rescue SystemCallError
          nil # a server that has ended resets its connections
        end
        eventually { server.gone? || full?(reader) }
        read_messages(server, reader, messages.size).tap { client.kill.join }
      end
    end
    assert_operator theirs.size, :<, messages.size
    assert_equal messages, ours
  end

  # Whether the pipe holds so much that a writer would wait (64 KB, but for what no longer fits).
  def full?(reader)
    waiting = "\0" * 4
    reader.ioctl(0x541B, waiting) # FIONREAD
    waiting.unpack1("i") > 60_000
  end

  # Reads until all are there, or the server has ended.
  def read_messages(server, reader, count)
    text = +""
    eventually do
      chunk = reader.read_nonblock(65_536, exception: false)
      text << chunk if chunk.is_a?(String)
      text.count("\n") >= count || (chunk.nil? && server.gone?)
    end
    text.scan(/.*\n/).map { |line| line.chomp.split("|", 4).last }
  end

  def test_11_bytes_that_are_no_frame_end_their_connection_and_fill_no_memory
    theirs, ours = both do |peer|
      server = log_server(peer)
      before = server.memory
      answer = server.connect do |socket|
        flood(socket, "00000000", peer == GYRE ? 30 : 0.2).tap { eventually { server.memory - before >= FLOOD_MB << 19 } if peer == ANALOGGER }
      end
      [answer, (server.memory - before) >> 20]
    end
    assert_nil theirs[0]
    assert_operator theirs[1], :>=, FLOOD_MB / 2
    assert_match(/\Aerror: /, ours[0])
    assert_operator ours[1], :<, FLOOD_MB / 2
  end

  FLOOD_MB = 32

  # Sends a header and then bytes without end, as long as they are taken.
  def flood(socket, header, patience_s)
    socket.write(header)
    chunk = "x" * (1 << 20)
    FLOOD_MB.times { socket.write(chunk) }
    socket.wait_readable(patience_s) && socket.gets
  rescue Errno::EPIPE, Errno::ECONNRESET
    begin
      socket.gets
    rescue Errno::ECONNRESET
      "error: (reset)"
    end
  end

  def test_12_what_is_wrong_with_a_frame_is_in_the_log_with_the_peer
    theirs, ours = both do |peer|
      server = log_server(peer)
      from = server.connect do |socket|
        socket.write("00100011:a:b:c")
        assert_match(/\Aerror: /, socket.gets)
        socket.local_address.ip_port
      end
      log_raw(server, ["a", "info", "last"])
      eventually { server.messages(service: "a").include?("last") }
      server.lines.grep(/checksum/).map { |line| line.include?("127.0.0.1") && (peer == ANALOGGER || line.include?(from.to_s)) }
    end
    assert_equal [], theirs
    assert_equal [true], ours
  end

  # Analogger turns without end then; how fast is up to the machine, so only that Gyre rests is
  # looked at.
  def test_13_syncinterval_0_is_off_and_not_all_the_time
    skip "needs /proc" unless File.exist?("/proc/self/status")
    server = log_server(GYRE, { "syncinterval" => 0, "interval" => 5 })
    eventually(what: "a second with less than ten waits") do # at the start there is more to do
      before = server.waits
      sleep 1
      server.waits - before < 10
    end
  end

  def test_14_a_message_cannot_forge_a_line_and_each_line_has_its_time
    forged = "hello\n2020/01/01 00:00:00|root|info|all is well"
    theirs, ours = both do |peer|
      server = log_server(peer)
      log_raw(server, ["a", "info", forged])
      eventually { server.messages.any? }
      [server.lines.size, server.lines.first[/\A[^|]*/]]
    end
    assert_equal [2, ""], theirs
    assert_equal 1, ours[0]
    assert_match(%r{\A\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\z}, ours[1])
  end

  # Of Analogger's repository only, which no gem holds and whose libraries are gone; so there is
  # nothing to run it against. There, what should refuse a bad frame calls a method that does not
  # exist.
  def test_15_a_bad_frame_is_refused_with_the_protocols_line_and_ends_nothing_else
    server = log_server(GYRE)
    said = ["00100011:a:b:c", "90009000:a:b:c", "00000000", "garbage!"].map do |bytes|
      server.connect do |socket|
        socket.write(bytes)
        socket.read
      end
    end
    assert_equal ["error: checksum failed\n", "error: max length exceeded\n", "error: checksum failed\n", "error: checksum failed\n"], said
    log_raw(server, ["a", "info", "still here"])
    eventually { server.messages(service: "a") == ["still here"] }
  end
end
