# frozen_string_literal: true

# What becomes of messages when the client's process ends, is killed, forks or becomes a daemon.
require "test_helper"
require_relative "fake_server"
require_relative "with_clients"
require_relative "../support/engines"

# One engine: what differs is the outbox, whose contract has signal handlers and forks.
GyreTest::Engines.test_case("LogClientProcessTest", backends: GyreTest::Engines::NATIVE.first(1)) do
  include GyreTest::WithLogClients

  # Starts with a client in `log`. What it forks, it forks with threads at work.
  def program(server, code, **options)
    settings = { port: server.port, spool: @spool, retry_interval: [0.02, 0.1], exit_timeout: 25 }.merge(options)
    ["-r#{File.expand_path("../support/fork_guard", __dir__)}", "-e", <<~RUBY]
      require "gyre/log/client"
      log = Gyre::Log::Client.new("app", **#{settings})
      #{code}
    RUBY
  end

  def run_client(server, code, **options)
    output = ruby(*program(server, code, **options))
    assert_equal [[], true], [output.err.lines.grep_v(/\Atests: /), output.status.success?]
    output.out
  end

  def adopted_by_a_client(server)
    client(server) { eventually(what: "the spools' end") { Dir.empty?(@spool) } }
  end

  # A program that is killed when so many messages are in its spool.
  def kill_after(count, server)
    code = "#{count}.times { |number| log.info(\"m\#{number}\") }; sleep 0.01 until log.stats[:spooled] == #{count}; " \
           'puts "ready"; $stdout.flush; sleep'
    with_subprocess(*ruby_command(*program(server, code))) do |pid, out, _|
      assert_equal "ready\n", out.gets
      Process.kill(:KILL, pid)
    end
  end

  def test_a_process_that_just_ends_has_sent_everything
    GyreTest::FakeLogServer.open do |server|
      run_client(server, '1000.times { |number| log.info("m#{number}") }')
      assert_equal (0...1000).map { |number| "m#{number}" }, server.messages
      assert_empty Dir.children(@spool)
    end
  end

  def test_handlers_that_run_at_exit_may_log_too
    GyreTest::FakeLogServer.open do |server|
      output = ruby("-e", 'at_exit { $log.info("last") }; ' + program(server, '$log = log; log.info("first"); exit 3').last)
      assert_equal [3, ""], [output.status.exitstatus, output.err]
      eventually { server.messages == %w[first last] || Dir.children(@spool).any? }
      adopted_by_a_client(server)
      assert_equal %w[first last], server.messages
    end
  end

  def test_an_end_while_the_server_is_away_is_quick_and_the_next_process_sends
    GyreTest::FakeLogServer.open(start: false) do |server|
      run_client(server, '3.times { |number| log.info("m#{number}") }', exit_timeout: 1000) # it would be ended long before
      assert_equal 1, Dir.children(@spool).size
      server.start
      run_client(server, 'log.info("next"); log.flush(20); sleep 0.01 until Dir.empty?(%s)' % @spool.dump)
      assert_equal %w[m0 m1 m2 next], server.messages.sort
      assert_equal 2, server.records.map(&:client).uniq.size
    end
  end

  # A process may end at any moment, and then Ruby kills its threads: here while the spool's folder
  # is being made.
  def test_a_sender_that_is_killed_while_it_makes_a_spool_loses_nothing
    GyreTest::FakeLogServer.open(start: false) do |server|
      kill = <<~'RUBY'
        made, killed = Thread::Queue.new, Thread::Queue.new
        Dir.singleton_class.prepend(Module.new do
          define_method(:mkdir) do |path, *mode|
            super(path, *mode)
            made.push(Thread.current) && killed.pop if path.end_with?(".#{Process.pid}") && killed.empty?
          end
        end)
        3.times { |number| log.info("m#{number}") }
        made.pop.kill
        killed.close
        log.close(0)
        print log.stats.values_at(:spooled, :dropped).inspect
      RUBY
      assert_equal "[3, 0]", run_client(server, kill)
      server.start
      adopted_by_a_client(server)
      assert_equal %w[m0 m1 m2], server.messages
    end
  end

  def test_an_end_is_held_up_by_a_silent_server_only_so_long
    GyreTest::FakeLogServer.open(acknowledge: :never) do |server|
      took = duration_s { run_client(server, 'log.info("m0"); sleep 0.01 until log.stats[:sent] == 1', exit_timeout: 0.3) }
      assert_operator took, :>, 0.3
      eventually { server.messages == ["m0"] }
      server.acknowledge = :each
      adopted_by_a_client(server)
      assert_equal [["m0"], 2], [server.messages, server.raw.size]
    end
  end

  def test_a_process_that_is_killed_leaves_what_the_server_had_not_taken
    GyreTest::FakeLogServer.open(start: false) do |server|
      kill_after(500, server)
      server.start
      adopted_by_a_client(server)
      assert_equal (0...500).map { |number| "m#{number}" }, server.messages
    end
  end

  def test_what_a_process_leaves_is_sent_by_a_client_that_was_connected_all_the_time
    GyreTest::FakeLogServer.open(start: false) do |server|
      kill_after(3, server)
      server.start
      Dir.mktmpdir do |elsewhere|
        client = Gyre::Log::Client.new("app", port: server.port, spool: elsewhere, retry_interval: 0.02..0.1, adoption_interval: 0.05)
        assert client.connect
        Dir.children(@spool).each { |name| File.rename(File.join(@spool, name), File.join(elsewhere, name)) }
        eventually { Dir.empty?(elsewhere) }
        client.close
      end
      assert_equal %w[m0 m1 m2], server.messages
    end
  end

  def test_a_process_that_is_killed_while_it_sends_its_spool_stores_nothing_twice
    GyreTest::FakeLogServer.open(start: false, acknowledge: 0.001) do |server|
      code = '500.times { |number| log.info("m#{number}") }; puts "ready"; $stdout.flush; sleep'
      with_subprocess(*ruby_command(*program(server, code))) do |pid, out, _|
        assert_equal "ready\n", out.gets
        eventually { spooled_bytes > 18_000 }
        server.start
        eventually { server.records.size > 100 }
        Process.kill(:KILL, pid)
      end
      adopted_by_a_client(server)
      assert_equal (0...500).map { |number| "m#{number}" }, server.messages
    end
  end

  def spooled_bytes
    Dir["#{@spool}/*/*.records"].sum { |path| File.size(path) }
  end

  def test_a_child_has_its_own_numbers_and_does_not_send_the_parents
    GyreTest::FakeLogServer.open do |server|
      run_client(server, <<~'RUBY')
        log.info("before")
        pids = 3.times.map { |child| fork { 10.times { |number| log.info("child #{child} #{number}") } } }
        10.times { |number| log.info("parent #{number}") }
        pids.each { |pid| Process.wait(pid) }
      RUBY
      records = server.records.group_by(&:client).values.map { |group| group.map { |record| [record.sequence, record.message] } }
      expected = 3.times.map { |child| 10.times.map { |number| [number + 1, "child #{child} #{number}"] } }
      expected << ["before", *10.times.map { |number| "parent #{number}" }].each_with_index.map { |text, index| [index + 1, text] }
      assert_equal expected.sort, records.sort
      assert_equal server.records.size, server.raw.size
    end
  end

  def test_a_child_has_its_own_spool_and_does_not_keep_the_parents
    GyreTest::FakeLogServer.open(start: false) do |server|
      code = <<~'RUBY'
        log.info("parent")
        sleep 0.01 until log.stats[:spooled] == 1
        child = fork do
          log.info("child")
          sleep 0.01 until log.stats[:spooled] == 1
          puts "ready"
          $stdout.flush
          sleep
        end
        sleep
      RUBY
      with_subprocess(*ruby_command(*program(server, code))) do |pid, out, _|
        out.gets
        assert_equal 2, Dir.children(@spool).size
        Process.kill(:KILL, pid)
        Process.wait(pid)
        server.start
        # The child lives and sends what is its own; the parent's lock went with the parent.
        eventually { server.messages.sort == %w[child parent] && Dir.empty?(@spool) }
        assert_equal 2, server.records.map(&:client).uniq.size
      end
    end
  end

  def test_a_fork_in_the_middle_of_a_storm
    GyreTest::FakeLogServer.open do |server|
      run_client(server, <<~'RUBY')
        writer = Thread.new { 3000.times { |number| log.info("thread #{number}") } }
        pids = 5.times.map { |child| sleep 0.002; fork { 20.times { |number| log.info("child #{child} #{number}") } } }
        writer.join
        pids.each { |pid| Process.wait(pid) }
      RUBY
      expected = 3000.times.map { |number| "thread #{number}" } + 5.times.flat_map { |child| 20.times.map { |number| "child #{child} #{number}" } }
      assert_equal expected.sort, server.messages.sort
    end
  end

  def test_a_daemon_goes_on
    GyreTest::FakeLogServer.open do |server|
      run_client(server, 'log.info("before"); Process.daemon(true, true); log.info("after")')
      eventually { server.messages == %w[before after] }
      eventually { Dir.empty?(@spool) }
    end
  end

  # What was logged before is in the daemon's memory and in its spool: flush speaks of that, too.
  def test_flush_in_a_daemon_speaks_of_what_was_logged_before
    [true, false].each do |spool|
      GyreTest::FakeLogServer.open(start: false) do |server|
        Dir.mktmpdir do |folder|
          said = "#{folder}/said"
          run_client(server, <<~RUBY, exit_timeout: 0.1, spool: spool && @spool)
            50.times { |number| log.info("m\#{number}") }
            sleep 0.01 until log.stats[:spooled] == 50 || #{!spool}
            Process.daemon(false, true)
            File.write("#{said}.1", log.flush(0.1).to_s)
            sleep 0.01 until File.exist?("#{folder}/go")
            log.info("after")
            File.write("#{said}.part", log.flush(30).to_s)
            File.rename("#{said}.part", "#{said}.2")
          RUBY
          eventually { File.exist?("#{said}.1") && File.read("#{said}.1") != "" }
          server.start
          File.write("#{folder}/go", "")
          eventually { File.exist?("#{said}.2") }
          assert_equal %w[false true], [File.read("#{said}.1"), File.read("#{said}.2")]
          assert_equal [*(0...50).map { |number| "m#{number}" }, "after"], server.messages
          assert_equal 1, server.records.map(&:client).uniq.size
        end
      end
    end
    eventually { Dir.empty?(@spool) } # as the daemon ends
  end

  def test_a_thread_that_was_killed_goes_on_with_its_own_spool
    GyreTest::FakeLogServer.open(start: false) do |server|
      out = run_client(server, <<~'RUBY', exit_timeout: 0.1)
        3.times { |number| log.info("m#{number}") }
        sleep 0.01 until log.stats[:spooled] == 3
        Thread.list.find { |thread| thread.name == "gyre log" }.kill.join
        log.info("m3")
        print log.flush(0.1)
        print log.instance_variable_get(:@sender).client_id == Dir.children(log.instance_variable_get(:@options).spool).fetch(0)[-32..]
      RUBY
      assert_equal "falsetrue", out
      server.start
      adopted_by_a_client(server)
      assert_equal [%w[m0 m1 m2 m3], 1], [server.messages, server.records.map(&:client).uniq.size]
    end
  end

  def test_a_signal_handler_may_log
    GyreTest::FakeLogServer.open do |server|
      run_client(server, <<~'RUBY')
        trap(:USR1) { 3.times { |number| log.info("trap #{number}") } }
        log.connect
        10.times { Process.kill(:USR1, Process.pid); 50.times { log.info("main") } }
        sleep 0.01 until log.stats[:logged] >= 503
        log.flush(20)
      RUBY
      assert_equal 500, server.messages.count("main")
      assert_operator server.messages.count { |message| message.start_with?("trap") }, :>=, 3
    end
  end

  def test_a_signal_handler_does_not_wait_when_there_is_no_room
    GyreTest::FakeLogServer.open(start: false) do |server|
      out = run_client(server, <<~'RUBY', spool: false, memory_limit: 8192, exit_timeout: 0)
        done = false
        log.info("x" * 100) until log.stats[:queue_bytes] > 8000
        trap(:USR1) { 3.times { log.info("y" * 500) }; done = true }
        Process.kill(:USR1, Process.pid)
        sleep 0.01 until done
        print log.stats[:queue_bytes] > 8000
        log.instance_variable_get(:@options).report.define_singleton_method(:call) { |_| nil } # lost, and it says so
      RUBY
      assert_equal "true", out
    end
  end

  def test_a_client_without_references_sends_and_ends
    GyreTest::FakeLogServer.open do |server|
      out = run_client(server, <<~'RUBY')
        log.info("kept")
        def forgotten(options) = Gyre::Log::Client.new("app", **options).info("forgotten")
        options = { port: log.instance_variable_get(:@options).address.endpoint.port, spool: false }
        Thread.new { 5.times { forgotten(options) } }.join
        deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 25
        until Thread.list.count { |thread| thread.name == "gyre log" } < 4 || Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
          GC.start
          sleep 0.01
        end
        print Thread.list.count { |thread| thread.name == "gyre log" } < 4
      RUBY
      assert_equal "true", out
      assert_equal 5, server.messages.count("forgotten")
    end
  end
end
