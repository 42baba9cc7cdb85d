# frozen_string_literal: true

# The log server under load: many idle connections, floods, a full disk, a lack of descriptors,
# faults of its own.

require "test_helper"
require "json"
require "objspace"
require "oracle/log/records"
require "support/engines"
require "support/log_server"

GyreTest::Engines.test_case("LogServerLoadTest", backends: GyreTest::Engines::NATIVE.first(1)) do
  def test_a_manager_is_told_of_reopened_files_and_of_the_end
    told = Thread::Queue.new
    manager = Object.new
    manager.define_singleton_method(:reloading) { |&reload| (told << :reloading) && reload.call.tap { told << :ready } }
    manager.define_singleton_method(:stopping) { told << :stopping }
    serve(manager: manager) do |server|
      server.server.reopen
      assert_equal %i[reloading ready], Array.new(2) { told.pop }
      server.server.stop
      assert_equal :stopping, told.pop
    end
  end

  def test_idle_connections_hold_no_fiber_and_hardly_any_memory
    count = backend == "select" ? 300 : 1000
    serve do |server|
      clients = Array.new(10) { server.client("idle") }
      before = holdings
      clients.concat(Array.new(count) { server.client("idle") })
      clients.each { |client| client.write(frame("idle", "info", "x" * 100)[0..-2]) }
      eventually { server.server.status[:connections] == clients.size && server.server.status[:bytes] > 100 * count }
      after = holdings
      assert_operator after[0] - before[0], :<, 10
      # Both ends live in this process: about 3 KB for a connection of the server with a part of a
      # frame, as much for the client's socket.
      assert_operator (after[1] - before[1]) / count, :<, 20_000
      assert_operator after[2] - before[2], :<, (count * 20_000) + 16_000_000
      clients.each { |client| client.write("x") }
      eventually { server.lines.size == clients.size }
      eventually { server.server.status[:bytes].zero? } # they count until their write has returned
      clients.each(&:close)
    end
  end

  # The time limit of all tests finds one that waits without end.
  def test_a_flood_does_not_starve_the_others
    serve do |server|
      over = false
      flood = Thread.new { flood(server.client("flood"), -> { over }) }
      client = server.client("calm", words: "authentication/2 client=#{"c" * 32}")
      eventually { server.server.status[:services].key?("flood") }
      1.upto(8) do |number|
        before = server.server.ingest.messages
        client.write(Gyre::Log::Records.encode(seq: number, time_us: 1, service: "calm", severity: "info", message: "message #{number}"))
        assert_equal "ack #{number}\n", client.gets
        eventually { server.server.ingest.messages > before + 1 } # the flood goes on all the time
      end
      over = true
      flood.join
      client.close
    end
  end

  def test_a_flood_takes_no_more_memory_than_allowed
    serve(limits: { memory_bytes_limit: 2_000_000 }, interval: 60) do |server|
      clients = Array.new(4) { server.client("flood") }
      threads = clients.map { |client| Thread.new { 10.times { client.write(frame("flood", "info", "x" * 1000) * 200) } } }
      most = 0
      until threads.none?(&:alive?)
        most = [most, server.server.status[:bytes]].max
        sleep 0.001
      end
      threads.each(&:join)
      assert_operator most, :<, 2_000_000 + (4 * 300_000)
      eventually { server.server.ingest.messages >= 8_000 }
      server.server.reopen
      eventually { server.lines.grep(/\Aflood/).size == 8_000 }
      clients.each(&:close)
    end
  end

  # What stays incomplete is never written: it would stop reading without end.
  def test_messages_that_do_not_end_do_not_stop_the_others
    serve(limits: { memory_bytes_limit: 1_000_000, linger_timeout_s: 0.2 }, inputs: [{ type: "json", bind: "tcp://127.0.0.1:0" }]) do |server|
      small = server.client("small", words: "authentication/2 client=#{"0" * 32}")
      small.write(record(1, "x" * 1000)[0..-2])
      many = 1.upto(6).map { |number| server.client("records", words: "authentication/2 client=#{number.to_s * 32}") }
      many.each { |client| client.write(record(1, "x" * 150_000)[0..-2]) }
      many.concat(Array.new(6) { server.connect(server.server.endpoints.last) })
      many.last(6).each { |client| client.write("x" * 100_000) }
      eventually { server.server.status[:pauses].positive? }
      late = server.client("late")
      late.write(frame("late", "info", "hello"))
      eventually { server.lines.include?("late|info|hello") }
      small.write(record(1, "x" * 1000)[-1])
      assert_equal "ack 1\n", small.gets, "a connection that holds little stays"
      eventually { !server.server.status[:paused] }
      line = eventually { server.lines.find { |line| line.start_with?("gyre") } }
      assert_match(/\Agyre\|warn\|127\.0\.0\.1:\d+: messages that have not ended take too much memory/, line)
      [small, late, *many].each(&:close)
    end
  end

  def test_a_client_that_is_silent_for_too_long_has_to_go_but_not_a_listener
    serve(limits: { idle_timeout_s: 0.2 }) do |server|
      follower = server.client("", words: "authentication/2 tail")
      silent = server.client("silent")
      assert_equal "error: nothing came for 0.2 s\n", silent.gets
      assert_match(/\|gyre\|warn\|127\.0\.0\.1:#{silent.local_address.ip_port}: nothing came for 0\.2 s$/, follower.gets)
      client = server.client("late")
      assert_equal "error: nothing came for 0.2 s\n", client.gets
      assert_match(/:#{client.local_address.ip_port}: nothing came/, follower.gets)
      [follower, silent, client].each(&:close)
    end
  end

  def test_a_client_that_is_not_read_is_not_silent
    reader, writer = IO.pipe
    fill(writer)
    serve(logs: [{ services: ["stuck"], logfile: "/dev/fd/#{writer.fileno}" }],
          limits: { memory_bytes_limit: 100_000, idle_timeout_s: 0.2 }) do |server|
      client = server.client("stuck")
      # In one go, so that a writer that is slow on a busy machine is not silent.
      writing = Thread.new { client.write(Array.new(1000) { |number| frame("stuck", "info", "#{number} #{"x" * 1000}") }.join) }
      eventually { waiting(server) == 1 }
      sleep 0.6
      lines = Thread.new { reader.each_line.lazy.grep(/stuck/).first(1000) }
      writing.join
      assert_equal (0...1000).to_a, lines.value.map { |line| line[/\|(\d+) x/, 1].to_i }
      client.close
    end
  ensure
    [reader, writer].each(&:close)
  end

  # As a machine does that is overloaded, or a process after SIGSTOP: by its clock every client has
  # been silent for too long.
  def test_a_client_that_sent_while_the_server_stood_still_was_not_silent
    serve(limits: { idle_timeout_s: 0.5, authentication_timeout_s: 0.5 }) do |server|
      eventually(what: "a stand-still in time") do
        speaker, late = server.client("speaker"), server.connect
        standing_still(server) do
          next if speaker.wait_readable(0) || late.wait_readable(0) # it began too late

          speaker.write(frame("speaker", "info", "here"))
          late.write(frame("late", "authentication", "") + frame("late", "info", "here"))
          sleep 0.8
        end
        answers = [late, speaker].map { |client| client.tap(&:close_write).read }
        [late, speaker].each(&:close)
        answers == ["accepted\n", ""] || (server.lines.grep(/here/).any? && flunk(answers.inspect))
      end
      eventually { server.lines.grep(/here/).sort == %w[late|info|here speaker|info|here] }
    end
  end

  # During the block the server does nothing.
  def standing_still(server)
    blocking = server.client("blocking")
    still, go_on = Thread::Queue.new, Thread::Queue.new
    eventually { find(server, "blocking") }.define_singleton_method(:received) { |_bytes| still.push(true) && go_on.pop }
    blocking.write("x")
    still.pop
    yield
  ensure
    go_on&.close
    blocking&.close
  end

  def find(server, service)
    server.server.instance_variable_get(:@hub).connections.keys.find { |one| one.to_h[:service] == service }
  end

  # Before a restart what has come is written, and then nothing may come any more.
  def test_while_it_is_held_nothing_comes
    serve(limits: { idle_timeout_s: 0.1 }, inputs: [{ type: "syslog", bind: "tcp://127.0.0.1:0" }]) do |server|
      held = eventually do
        client = server.connect(server.server.endpoints.last)
        client.write("<13>half a li")
        eventually { server.server.ingest.incomplete.positive? || client.wait_readable(0) } # its time may be over already
        nothing_while_held(server.server).tap { client.close }
      end
      assert_equal :nothing, held
      eventually { server.lines.include?("syslog|info|half a li") }
    end
  end

  def nothing_while_held(server)
    server.instance_variable_get(:@hub).flow.hold do
      sleep 0.1 # a tick that had begun ends
      next unless server.ingest.incomplete.positive?

      before = server.ingest.messages
      sleep 0.3
      assert_equal before, server.ingest.messages
      :nothing
    end
  end

  # The disk may be full for days.
  def test_a_client_that_comes_again_and_again_while_nothing_is_read_leaves_nothing
    reader, writer = IO.pipe
    reading = []
    read_on = -> { reading << Thread.new { loop { reader.readpartial(1_000_000) } } } # until the server has ended
    fill(writer)
    limits = { linger_timeout_s: 0.1, memory_bytes_limit: 100_000 }
    serve(logs: [{ services: ["stuck"], logfile: "/dev/fd/#{writer.fileno}" }], limits: limits) do |server|
      stuck = server.client("stuck")
      stuck.write(frame("stuck", "info", "x" * 1000) * 150)
      eventually { waiting(server) == 1 }
      clients = 1.upto(6).map do |number|
        client = server.client("stuck", words: "authentication/2 client=#{"a" * 32}")
        client.write(record(1, number.to_s))
        eventually { server.server.status[:connections] == 2 && waiting(server) == 2 }
        client
      end
      read_on.call
      assert_equal "ack 1\n", clients.last.gets
      assert_equal ["records|info|6"], server.lines.grep(/records/)
      [stuck, *clients].each(&:close)
    ensure
      read_on.call # whatever has failed: the server ends sooner
    end
  ensure
    reading.each { |thread| thread.kill.join }
    [reader, writer].each(&:close)
  end

  def test_an_output_that_stands_still_stops_its_own_clients_and_no_others
    reader, writer = IO.pipe
    fill(writer)
    serve(logs: [{ services: ["stuck"], logfile: "/dev/fd/#{writer.fileno}" }], limits: { memory_bytes_limit: 1_000_000 }) do |server|
      client = server.client("stuck")
      writing = Thread.new { 5000.times { |number| client.write(frame("stuck", "info", "#{number} #{"x" * 1000}")) } }
      eventually { waiting(server) == 1 }
      late = server.client("late")
      late.write(frame("late", "info", "hello"))
      eventually { server.lines == ["late|info|hello"] }
      assert_equal false, status(server)["paused"]
      assert_operator status(server)["bytes"], :<, 2_100_000
      assert_equal "late", status(server)["clients"].map { |one| one["service"] }.find { |service| service == "late" }
      lines = Thread.new { reader.each_line.lazy.grep(/stuck/).first(5000) }
      writing.join
      assert_equal (0...5000).to_a, lines.value.map { |line| line[/\|(\d+) x/, 1].to_i }
      eventually { waiting(server).zero? }
      [client, late].each(&:close)
    end
  ensure
    [reader, writer].each(&:close)
  end

  def test_at_the_end_an_output_that_takes_nothing_is_waited_for_in_bounds
    reader, writer = IO.pipe
    fill(writer)
    server = GyreTest::LogServer.new(logs: [{ services: ["stuck"], logfile: "/dev/fd/#{writer.fileno}" }], limits: { stop_timeout_s: 0.2 })
    client = server.client("stuck")
    client.write(frame("stuck", "info", "hello"))
    eventually { server.server.status[:bytes].positive? }
    assert_equal false, server.stop
    assert_match(/after 0\.2 s \d+ bytes are still not written/, server.report)
    client.close
  ensure
    [reader, writer].each(&:close)
  end

  # Each of them would have waited as long again for room to read what a client has sent.
  def test_the_time_for_the_end_is_one_for_all_connections
    reader, writer = IO.pipe
    fill(writer)
    limits = { stop_timeout_s: 0.3, linger_timeout_s: 0.1, memory_bytes_limit: 100_000 }
    server = GyreTest::LogServer.new(logs: [{ services: ["stuck"], logfile: "/dev/fd/#{writer.fileno}" }], limits: limits)
    clients = Array.new(3) { server.client("stuck") }
    clients.each { |client| client.write(frame("stuck", "info", "x" * 1000) * 150) }
    eventually { waiting(server) == 3 }
    given = []
    committer = server.server.instance_variable_get(:@committer)
    committer.define_singleton_method(:flush) { |timeout_s| given << timeout_s && super(timeout_s) }
    assert_equal false, server.stop
    refute_empty given
    assert_operator given.sum, :<=, 0.31
    clients.each(&:close)
  ensure
    [reader, writer].each(&:close)
  end

  def test_without_descriptors_it_rests_and_goes_on
    skip "its limit would be that of select(2)" if backend == "select"
    serve do |server|
      client = server.client("before")
      client.write(frame("before", "info", "here")) # so that there is a file, which could not be opened later
      eventually { server.lines.include?("before|info|here") }
      log = File.open(server.path, "rb")
      logged = ->(pattern) { log.rewind.zero? && log.read.match?(pattern) }
      limits = Process.getrlimit(:NOFILE)
      begin
        waiting = [server.connect]
        Process.setrlimit(:NOFILE, IO.for_fd(waiting.last.fileno, autoclose: false).fileno + 20, limits.last)
        30.times { waiting << server.connect } # not in one go: one that raises would lose the others
      rescue Errno::EMFILE
        eventually { logged.call(/\|gyre\|error\|tcp:.*no connection can be accepted/) }
        client.write(frame("before", "info", "alive"))
        eventually { logged.call(/\|before\|info\|alive$/) }
      ensure
        Process.setrlimit(:NOFILE, *limits)
      end
      server.client("after").close
      assert_empty server.report
      [client, log, *waiting].each(&:close)
    end
  end

  def test_a_fault_of_the_servers_own_ends_one_connection_only
    serve do |server|
      other = server.client("other")
      hub = server.server.instance_variable_get(:@hub)
      victim = server.client("victim")
      eventually { hub.connections.size == 2 }
      connection = hub.connections.keys.find { |one| one.to_h[:service] == "victim" }
      connection.define_singleton_method(:received) { |_bytes| raise "a fault" }
      victim.write("x")
      assert_nil victim.gets
      other.write(frame("other", "info", "alive"))
      eventually { server.lines.include?("other|info|alive") }
      assert_match(/127\.0\.0\.1:\d+: .*a fault \(RuntimeError\)/, server.report)
      [other, victim].each(&:close)
    end
  end

  # Ruby loads files for that, which cannot be had without descriptors.
  def test_a_fault_that_cannot_be_described_is_reported_all_the_same
    serve do |server|
      hub = server.server.instance_variable_get(:@hub)
      fault = RuntimeError.new("a fault")
      fault.define_singleton_method(:full_message) { |**| raise LoadError, "cannot load such file" }
      client = server.client("victim")
      eventually { hub.connections.size == 1 }
      hub.connections.keys.first.define_singleton_method(:received) { |_bytes| raise fault }
      client.write("x")
      assert_nil client.gets
      assert_match(/127\.0\.0\.1:\d+: a fault \(RuntimeError\)/, server.report)
      client.close
    end
  end

  def test_a_committer_that_fails_ends_the_server_with_its_error
    server = GyreTest::LogServer.new
    server.server.instance_variable_get(:@routing).outputs.first.define_singleton_method(:write) { |*| raise "it cannot" }
    client = server.client("web")
    client.write(frame("web", "info", "hello"))
    error = assert_raises(RuntimeError) { server.wait }
    assert_equal "it cannot", error.message
    client.close
  ensure
    FileUtils.rm_rf(server.folder)
  end

  private

  # How many connections wait for an output whose queue is full.
  def waiting(server)
    server.server.status[:outputs].sum { |output| output[:waiting] }
  end

  def serve(**settings, &block)
    GyreTest::LogServer.open(**settings, &block)
  end

  def frame(*parts)
    Gyre::Log::Wire.frame(*parts)
  end

  def record(sequence, message)
    Gyre::Log::Records.encode(seq: sequence, time_us: 1, service: "records", severity: "info", message: message)
  end

  def flood(client, over)
    bytes = frame("flood", "debug", "x" * 100) * 1000
    client.write(bytes) until over.call
  ensure
    client.close
  end

  def fill(pipe)
    nil while pipe.write_nonblock("x" * 4096, exception: false) != :wait_writable
  end

  def status(server)
    asking = server.client("", words: "authentication/2 status")
    JSON.parse(asking.read)
  ensure
    asking&.close
  end

  def holdings
    GC.start
    [ObjectSpace.each_object(Fiber).count, ObjectSpace.memsize_of_all, File.read("/proc/self/statm").split[1].to_i * 4096]
  end
end
