# frozen_string_literal: true

# What becomes of messages when the server, the network or the disk fails.
require "test_helper"
require "minitest/mock"
require_relative "fake_server"
require_relative "with_clients"
require_relative "../support/engines"

GyreTest::Engines.test_case("LogClientOutageTest", backends: GyreTest::Engines::NATIVE.first(1)) do
  include GyreTest::WithLogClients

  def server(**options, &block)
    GyreTest::FakeLogServer.open(**options) do |server|
      block.call(server)
      assert_empty server.failures
    end
  end

  def log(client, range)
    range.each { |number| client.info("m#{number}") }
  end

  def messages(range)
    range.map { |number| "m#{number}" }
  end

  def spools
    Dir.children(@spool)
  end

  def away(client)
    eventually(what: "the outage") { client.stats[:state] == :away }
  end

  def test_three_outages_lose_nothing_and_keep_the_order
    [true, false].each do |acknowledged|
      server do |server|
        client(server, acknowledged: acknowledged) do |client|
          assert client.connect(30)
          3.times do |outage|
            log(client, (outage * 100)...(outage * 100 + 50))
            assert client.flush(30)
            eventually { server.messages.size == outage * 100 + 50 }
            server.stop
            away(client)
            log(client, (outage * 100 + 50)...(outage * 100 + 100))
            eventually { client.stats[:spool_bytes].positive? && client.stats[:spooled] == (outage + 1) * 50 }
            refute client.flush(0.01)
            server.start
            assert client.flush(30)
            eventually { server.messages.size == outage * 100 + 100 }
            assert_equal messages(0...(outage * 100 + 100)), server.messages
            eventually { spools.empty? }
          end
          assert_equal [3, 0, 300], client.stats.values_at(:reconnects, :dropped, :logged)
        end
      end
    end
  end

  def test_what_was_not_acknowledged_is_sent_again_with_its_numbers
    server(acknowledge: :never) do |server|
      client(server) do |client|
        log(client, 0...10)
        eventually { server.raw.size == 10 }
        refute client.flush(0.05)
        server.stop
        away(client)
        log(client, 10...20)
        server.acknowledge = :each
        server.start
        assert client.flush(30)
        assert_equal messages(0...20), server.messages
        assert_equal (1..10).to_a + (1..20).to_a, server.raw.map(&:sequence)
        assert_equal 1, server.raw.map(&:client).uniq.size
      end
    end
  end

  def test_a_fault_of_the_adoption_ends_nothing_else
    server(acknowledge: :never) do |server|
      Gyre::Log::Spools.stub(:each_orphan, ->(*, **) { raise NotImplementedError, "no such thing here" }) do
        client = client(server)
        log(client, 0...3)
        eventually { server.raw.size == 3 && @reports.any? }
        client.close(0)
        assert_equal ["left spools cannot be sent: no such thing here"], @reports
        assert_equal [3, :closed], client.stats.values_at(:spooled, :state)
      end
    end
  end

  def test_a_fault_of_each_turn_is_reported_once_and_waits_between_two
    server(start: false) do |server|
      client(server) do |client|
        delivery = client.instance_variable_get(:@sender).instance_variable_get(:@delivery)
        events = Thread::Queue.new
        delivery.define_singleton_method(:wait_io) { |*arguments| events.push(:wait) && super(*arguments) }
        backlog = delivery.instance_variable_get(:@backlog)
        backlog.define_singleton_method(:store) { |**| events.push(:fault) && raise(TypeError, "broken") }
        client.info("kept")
        faults = 0
        former = nil
        until faults == 5
          event = events.pop
          faults += 1 if event == :fault
          refute_equal %i[fault fault], [former, event]
          former = event
        end
        assert_equal 1, @reports.grep(/broken/).size
        backlog.singleton_class.remove_method(:store)
        server.start
        assert client.flush(30)
        assert_equal ["kept"], server.messages
      end
    end
  end

  def test_an_attempt_that_nothing_interrupts_holds_up_the_end_for_a_moment_only
    server(start: false) do |server|
      begun, gate = Thread::Queue.new, Thread::Queue.new
      attempt = nil
      stuck = lambda do |*, **|
        attempt = Thread.current
        begun.push(true)
        Thread.handle_interrupt(Object => :never) { gate.pop } # as getaddrinfo(3) in older Rubies
        raise Errno::ETIMEDOUT
      end
      Gyre::Log::ServerConnection.stub(:open, stuck) do
        client = client(server)
        client.info("kept")
        begun.pop
        client.close(0)
        assert_equal [1, :closed], client.stats.values_at(:spooled, :state)
        assert_predicate attempt, :alive?
        gate.push(true)
        attempt.join
      end
    end
  end

  def test_a_connection_cut_at_any_byte
    (90..190).step(9) do |bytes|
      server(cut_after: bytes) do |server|
        client(server) do |client|
          log(client, 0...5)
          assert client.flush(30)
          assert_equal messages(0...5), server.messages
        end
      end
    end
  end

  # What the network had taken when it was cut is gone: the old protocol does not report it. All
  # else arrives, once.
  def test_an_old_connection_cut_at_any_byte
    (30..100).step(9) do |bytes|
      server(cut_after: bytes) do |server|
        client(server, acknowledged: false) do |client|
          4.times do |number|
            client.info("m#{number}")
            eventually { server.messages.size > number || server.connections > 1 }
          end
          eventually { server.connections > 1 }
          client.info("m4")
          assert client.flush(30)
          eventually { server.messages.last == "m4" }
          numbers = server.messages.map { |message| message[1..].to_i }
          assert_equal numbers.sort.uniq, numbers
          assert_operator numbers.size, :>=, 4
        end
      end
    end
  end

  def test_the_old_protocol_sends_a_frame_again_that_was_written_by_half
    server do |server|
      server.stalled = true
      client(server, acknowledged: false) do |client|
        server.stalled = false
        assert client.connect(30)
        server.stalled = true
        # More than the sockets' buffers take, so that a write ends in the middle; less than memory
        # takes, so that no call waits.
        count = 1200
        count.times { |number| client.info("m#{number} #{"x" * 8000}") }
        waiting = 0
        eventually { waiting == (waiting = client.stats[:queue_bytes]) && waiting.positive? }
        assert_equal :connected, client.stats[:state]
        server.stop
        eventually { client.stats[:spool_bytes].positive? }
        received = server.messages.size
        server.stalled = false
        server.start
        assert client.flush(30)
        eventually { server.messages.last.start_with?("m#{count - 1} ") }
        numbers = server.messages.map { |message| message[/\d+/].to_i }
        assert_equal numbers.sort.uniq, numbers
        assert_equal (numbers[received]..count - 1).to_a, numbers[received..]
      end
    end
  end

  def test_a_silent_server_is_given_up_after_the_stall_timeout
    server(acknowledge: :never) do |server|
      client(server, stall_timeout: 0.2) do |client|
        client.info("m0")
        eventually { server.connections > 2 }
        assert_match(/took nothing/, client.instance_variable_get(:@sender).error.message)
        server.acknowledge = :each
        assert client.flush(30)
        assert_equal ["m0"], server.messages
      end
    end
  end

  def test_an_idle_connection_is_not_given_up
    server do |server|
      client(server, stall_timeout: 0.4) do |client|
        # More than once only where the machine stands still while an answer is under way.
        eventually(what: "the same connection after it was idle") do
          client.info("m0")
          assert client.flush(30)
          before = server.connections
          sleep 0.6 # the time itself is the subject
          client.info("m1")
          assert client.flush(30)
          server.connections == before
        end
      end
    end
  end

  def test_a_server_that_is_slow_holds_up_the_caller_but_nothing_is_lost
    server(acknowledge: 0.001) do |server|
      client(server, memory_limit: 8192) do |client|
        assert client.connect(30)
        log(client, 0...400)
        assert_operator client.stats[:queue_bytes], :<=, 8192
        assert client.flush(30)
        assert_equal messages(0...400), server.messages
        assert_equal 0, client.stats[:spooled]
      end
    end
  end

  def test_new_messages_go_after_the_spool_while_it_is_sent
    server(start: false) do |server|
      client(server, memory_limit: 16_384) do |client|
        log(client, 0...2000)
        eventually { client.stats[:spooled] == 2000 }
        server.acknowledge = 0.0002
        server.start
        log(client, 2000...4000)
        assert client.flush(30)
        assert_equal messages(0...4000), server.messages
        eventually { spools.empty? }
      end
    end
  end

  def test_a_full_spool_blocks_one_thread_while_others_go_on
    server(start: false) do |server|
      client(server, spool_limit: 4096, memory_limit: 8192) do |client|
        writer = Thread.new { log(client, 0...1000) }
        eventually { writer.stop? && client.stats[:queue_bytes] > 11_000 }
        assert_equal 0, client.stats[:dropped]
        server.start
        assert writer.join(30)
        assert client.flush(30)
        assert_equal messages(0...1000), server.messages
      end
    end
  end

  def test_a_full_spool_drops_the_oldest_whole_records_and_counts_them
    server(start: false) do |server|
      client(server, spool_limit: 4096, memory_limit: 8192, when_full: :drop_oldest) do |client|
        log(client, 0...1000)
        eventually { client.stats[:dropped] > 500 }
        server.start
        assert client.flush(30)
        dropped = client.stats[:dropped]
        assert_equal messages(dropped...1000), server.messages
        assert_operator client.stats[:spool_bytes], :<=, 4096
      end
    end
  end

  def test_a_full_spool_raises
    server(start: false) do |server|
      client(server, spool_limit: 4096, memory_limit: 8192, when_full: :raise) do |client|
        away(client)
        logged = 0
        error = assert_raises(Gyre::Log::SpoolFull) { 1000.times { client.info("m#{logged}") && logged += 1 } }
        assert_match(/no more room \(memory_limit: \d+.*\): .*refused/i, error.message)
        assert_operator logged, :>, 250
        server.start
        assert client.flush(30)
        assert_equal messages(0...logged), server.messages
        log(client, logged...logged + 10)
        assert client.flush(30)
      end
    end
  end

  def test_without_a_spool_memory_is_what_is_full
    { block: nil, drop_oldest: nil, raise: Gyre::Log::SpoolFull }.each do |policy, error|
      server(start: false) do |server|
        client(server, spool: false, memory_limit: 8192, when_full: policy) do |client|
          logged = 0
          writer = Thread.new { 500.times { client.info("m#{logged}") && logged += 1 } }
          writer.report_on_exception = false
          case policy
          when :block then eventually { writer.stop? && client.stats[:queue_bytes] > 8000 }
          when :drop_oldest then writer.join
          when :raise then assert_raises(error) { writer.join }
          end
          server.start
          writer.join unless error
          assert client.flush(30)
          dropped = client.stats[:dropped]
          assert_equal policy == :drop_oldest, dropped.positive?
          assert_equal messages(dropped...logged), server.messages
          assert_empty spools
        end
      end
    end
  end

  def test_a_spool_that_takes_nothing_is_reported_once_and_its_policy_holds
    FileUtils.rm_rf(@spool)
    server(start: false) do |server|
      client(server, when_full: :raise, memory_limit: 8192) do |client|
        File.write(@spool, "no folder")
        assert_raises(Gyre::Log::SpoolFull) { log(client, 0...2000) }
        assert_equal 1, @reports.size, @reports.inspect
        assert_match(/the spool in .* takes nothing/, @reports.first)
        File.delete(@spool)
        eventually { client.stats[:spooled].positive? }
        server.start
        assert client.flush(30)
        assert_equal messages(0...server.messages.size), server.messages
      end
    end
  end

  def test_a_spool_that_cannot_be_had_is_a_warning_and_the_client_works_without_it
    server do |server|
      { "is not a folder" => -> { File.write("#{@spool}/x", "").then { "#{@spool}/x" } },
        "may be changed by other users" => -> { Dir.mkdir("#{@spool}/wide").then { File.chmod(0o777, "#{@spool}/wide") }.then { "#{@spool}/wide" } },
        "No such file" => -> { File.symlink("#{@spool}/nowhere", "#{@spool}/link").then { "#{@spool}/link" } } }.each do |why, make|
        @reports.clear
        client(server, spool: make.call) do |client|
          client.info("m0")
          assert client.flush(30)
        end
        assert_match(/\Ano spool: .*#{why}.*memory only\z/, @reports.join)
      end
      assert_equal %w[m0 m0 m0], server.messages
    end
  end

  # A server that has lost its mind, or another client with the same id, as a copy of the machine
  # would be.
  def test_an_id_that_another_client_has_is_changed_for_a_fresh_one_and_nothing_is_lost
    server(start: false) do |server|
      client(server) do |client|
        log(client, 0...10)
        eventually { client.stats[:spooled] == 10 }
        before = client.instance_variable_get(:@sender).client_id
        server.reply = "error: the client id is another client's\n"
        server.start
        eventually { client.instance_variable_get(:@sender).client_id != before }
        eventually { @reports.join.match?(/treats this client's id as another client's: unacknowledged messages are sent under a new one/) }
        secret = File.read(Dir["#{@spool}/*/lock"].fetch(0))
        assert_equal client.instance_variable_get(:@sender).client_id, Gyre::Log::Identity.of(secret).client_id
        server.reply = nil
        log(client, 10...12)
        assert client.flush(30)
        assert_equal messages(0...12), server.messages
        refute_includes server.records.map(&:client), before
      end
      assert_empty spools
    end
  end

  def test_a_number_that_was_never_sent_and_is_acknowledged_changes_the_id
    server(acknowledge: :never) do |server|
      client(server, spool: false) do |client|
        log(client, 0...3)
        eventually { server.messages.size == 3 }
        before = client.instance_variable_get(:@sender).client_id
        server.tell("ack #{(1 << 64) - 1}\n")
        server.acknowledge = :each
        assert client.flush(30)
        refute_equal before, client.instance_variable_get(:@sender).client_id
        assert_equal messages(0...3) * 2, server.messages
      end
    end
  end

  def test_a_refused_client_does_not_try_again_soon_and_reports_once
    server(reply: "denied\n") do |server|
      client(server, retry_interval: 0.01..1000) do |client|
        sender = client.instance_variable_get(:@sender)
        assert_raises(Gyre::Log::Denied) { client.connect(30) }
        2.times do |number|
          eventually { sender.dialer.failures == number + 1 && sender.dialer.retry_at > Gyre::Clock.now + 700 }
          assert_raises(Gyre::Log::Denied) { client.reconnect }
        end
        eventually { sender.dialer.failures == 3 }
        assert_equal 1, @reports.size, @reports.inspect
      end
    end
  end

  def test_a_wrong_key_is_an_error_that_the_caller_sees_and_nothing_is_lost
    [true, false].each do |acknowledged|
      server(reply: "denied\n") do |server|
        client(server, acknowledged: acknowledged) do |client|
          assert_raises(Gyre::Log::Denied) { client.connect(30) }
          error = assert_raises(Gyre::Log::Denied) { client.info("m0") }
          assert_match(/refuses the key of service "app".*are kept/, error.message)
          assert_raises(Gyre::Log::Denied) { client.flush(30) }
          assert_raises(Gyre::Log::Denied) { client.log("custom", "m1") }
          eventually { client.stats[:spooled] == 2 }
          eventually { client.stats[:state] == :refused } # it tries again now and then
          server.reply = nil
          eventually { client.stats[:state] == :connected }
          client.info("m2")
          assert client.flush(30)
          eventually { server.messages.size == 3 }
          assert_equal messages(0...3), server.messages
        end
        assert_equal 1, @reports.size
        @reports.clear
      end
    end
  end

  def test_an_old_server_is_an_error_with_the_remedy
    server(reply: "accepted\n") do |server|
      client(server) do |client|
        assert_match(/`acknowledged: false`/, assert_raises(Gyre::Log::Incompatible) { client.connect(30) }.message)
        assert_raises(Gyre::Log::Incompatible) { client.info("m0") }
      end
    end
    refute_empty spools
  end

  def test_a_server_that_breaks_the_protocol_is_tried_again
    ["hello\n", "error: out of order\n", ""].each do |reply|
      server(reply: reply) do |server|
        client(server) do |client|
          client.info("m0")
          eventually { server.connections > 1 }
          assert_equal :away, client.stats[:state]
          server.reply = nil
          assert client.flush(30)
          assert_equal ["m0"], server.messages
        end
      end
    end
    assert_equal ['answered "hello"', 'answered "error: out of order"'], @reports.map { |text| text[/answered .*/] }
  end

  def test_a_server_that_only_repeats_an_acknowledgement_is_tried_less_often
    server do |server|
      client(server, stall_timeout: 0.05) do |client|
        client.info("m0")
        assert client.flush(30)
        server.acknowledge = :never
        server.reply = "accepted 2\nack 1\n"
        client.info("m1")
        eventually { client.instance_variable_get(:@sender).dialer.failures > 5 }
      end
    end
  end

  def test_what_a_closed_client_left_is_sent_by_the_next_one_with_its_number
    server(start: false) do |server|
      first = client(server)
      log(first, 0...3)
      first.close
      other = client(server, "other")
      other.info("other's")
      other.close
      assert_equal 2, spools.size
      server.start
      client(server) do |client|
        client.info("m3")
        assert client.flush(30)
        eventually { server.messages.size == 4 }
        assert_equal messages(0...4), server.messages.sort
        assert_equal [[1, 2, 3], [1]], server.records.group_by(&:client).values.map { |group| group.map(&:sequence) }.sort_by { |all| -all.size }
        eventually { spools.size == 1 }
      end
      client(server, "other") { eventually { server.messages.last == "other's" && spools.empty? } }
    end
  end

  def test_a_client_that_closes_sends_first_what_others_have_left
    server(start: false) do |server|
      Array.new(3) { client(server).tap { |client| log(client, 0...3) } }.each(&:close)
      assert_equal 3, spools.size
      server.start
      last = client(server)
      assert last.connect(30)
      took = duration_s { last.close(100) }
      assert_empty spools
      assert_equal messages(0...3) * 3, server.messages
      assert_operator took, :<, 50, "it was not told that the work was done"
    end
  end

  def test_what_is_logged_after_the_close_is_sent_late_and_said_once
    server do |server|
      client = client(server)
      client.info("m0")
      client.close
      assert_equal [true, ["m0"]], [client.closed?, server.messages]
      2.times { |number| assert client.info("m#{number + 1}") }
      [-> { client.flush(30) }, -> { client.connect(30) }].each { |call| assert_raises(Gyre::Log::Closed, &call) }
      client.close
      assert_equal [true, %w[m0 m1 m2]], [client.closed?, server.messages]
      assert_equal 1, @reports.grep(/was closed before its last messages/).size
      assert_equal :closed, client.stats[:state]
    end
  end

  def test_messages_that_no_spool_keeps_are_counted_and_reported
    server(start: false) do |server|
      client = client(server, spool: false)
      log(client, 0...3)
      away(client)
      client.close(0)
      assert_equal 3, client.stats[:dropped]
      assert_match(/3 messages are lost: .*refused/i, @reports.first)
    end
  end

  def test_a_client_whose_thread_was_killed_goes_on
    server do |server|
      client(server) do |client|
        client.info("m0")
        assert client.flush(30)
        client.instance_variable_get(:@sender).instance_variable_get(:@thread).kill.join
        assert client.connect(30)
        assert client.flush(30), "the server has everything"
        client.info("m1")
        assert client.flush(30)
        assert_equal messages(0...2), server.messages
      end
    end
  end

  def test_records_that_are_too_long_for_a_later_client_are_sent_all_the_same
    server(start: false) do |server|
      first = client(server)
      texts = ["m0", "m" * 100_000, "m2"]
      texts.each { |text| first.info(text) }
      first.close
      server.start
      client(server, memory_limit: 65_536) { eventually { server.messages.size == 3 } }
      assert_equal texts, server.messages
      assert_empty @reports
    end
  end

  def test_a_report_may_be_logged_by_the_client_itself_even_when_there_is_no_room
    reported = []
    client = nil
    @reports = Class.new { define_method(:<<) { |text| reported << text && client.warn("m" * 500) } }.new
    server(start: false, reply: "denied\n") do |server|
      client = client(server, spool: false, memory_limit: 8192)
      client.info("m" * 8000)
      server.start
      eventually { reported.any? }
      server.reply = nil
      eventually { client.stats[:state] == :connected }
      assert client.flush(30)
      assert_equal [8000, 500], server.messages.map(&:size)
    ensure
      client.close(0)
    end
  end

  def test_a_report_that_fails_changes_nothing
    @reports = Class.new { def <<(_text) = raise(Errno::EPIPE) }.new
    server(reply: "denied\n") do |server|
      client(server) do |client|
        assert_raises(Gyre::Log::Denied) { client.connect(30) }
        assert_raises(Gyre::Log::Denied) { client.info("m0") }
        server.reply = nil
        eventually { client.stats[:state] == :connected }
        assert client.flush(30)
        assert_equal messages(0...1), server.messages
      end
    end
  end
end
