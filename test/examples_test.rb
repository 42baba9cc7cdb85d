# frozen_string_literal: true

# Runs the programs of examples/ on every engine, as people do: each proves by the order of its
# output that things went on at once, or by taking less time than one after the other they would
# have slept. They sleep most of the time, so some run side by side.

require "test_helper"
require "socket"
require "gyre/loop"

class ExamplesTest < Minitest::Test
  FOLDER = File.expand_path("../examples", __dir__)
  # nil: what Gyre takes by itself.
  BACKENDS = [nil, "select"].freeze
  PROGRAMS = %w[
    child_processes name_resolution net_http pipe scheduler_by_hand shared_mutex sleeping_threads thread_feeds_queue timeout timers
  ].freeze
  LOOP_SERVERS = %w[
    loop_http_server loop_http_server_persistent loop_http_server_persistent_worker_threads loop_http_server_separate_queues
    loop_http_server_worker_threads
  ].freeze
  SERVERS = [*LOOP_SERVERS, "line_echo", "ractor_server", "raw_http_server"].freeze
  # Tested in test/memcached, with the server that they need.
  MEMCACHED = %w[memcached_from_dalli memcached_page].freeze
  # Tested in test/log, with the server that they need.
  LOG = %w[log_from_analogger log_from_logger log_from_syslog log_redis_consumer].freeze
  # Tested in test/http/client, with a service behind it.
  CLIENT = %w[reverse_proxy].freeze
  # Tested in test/dns, with a stand-in for its site.
  DNS = %w[dns_wikipedia].freeze
  AT_ONCE = 4

  def self.time_limit_s = 120

  # The runs of all programs, made by the first test that needs one.
  def runs
    @@runs ||= begin # shared by the instances that Minitest makes, one a test
      waiting = Thread::Queue.new
      PROGRAMS.product(BACKENDS) { |run| waiting.push(run) }
      waiting.close
      results = {}
      Array.new(AT_ONCE) { Thread.new { run_next(waiting, results) } }.each(&:join)
      results
    end
  end

  def run_next(waiting, results)
    while (program, backend = waiting.pop)
      begin
        results[[program, backend]] = run_one(program, backend)
      rescue Exception => error # rubocop:disable Lint/RescueException -- raised again in the test that it belongs to
        results[[program, backend]] = error
      end
    end
  end

  def run_one(program, backend)
    ruby(File.join(FOLDER, "#{program}.rb"), env: { "GYRE_BACKEND" => backend })
  end

  # Yields the output of a program on each engine, and what runs it again and returns that output.
  def each_run(program)
    BACKENDS.each { |backend| yield output_of(runs.fetch([program, backend])), -> { output_of(run_one(program, backend)) } }
  end

  def output_of(run)
    raise run if run.is_a?(Exception)

    assert_predicate run.status, :success?, run.err
    assert_equal "", run.err
    run.out
  end

  def test_every_program_is_tested
    tested = PROGRAMS + SERVERS + MEMCACHED + LOG + CLIENT + DNS
    assert_equal tested.sort, Dir.children(FOLDER).grep(/\.rb\z/).map { |name| File.basename(name, ".rb") }.sort
  end

  def test_a_reader_and_a_writer_share_a_pipe
    each_run("pipe") do |out|
      lines = out.lines(chomp: true)
      assert_equal ["reader: waits", "main: both are at work", "writer: line 0", "reader: line 0"], lines.first(4)
      assert_equal ["reader: line 2", "reader: end of file"], lines.last(2)
    end
  end

  def test_net_http_requests_run_at_once
    each_run("net_http") do |out, again|
      assert_equal 5, out.scan("price of").size
      assert_at_once(/5 requests in ([\d.]+) s/, out, 2.5, &again)
    end
  end

  def test_threads_that_sleep_are_joined_at_once
    each_run("sleeping_threads") do |out, again|
      assert_at_once(/3 threads in ([\d.]+) s/, out, 3, &again)
      assert_operator out[/(\d+) ticks/, 1].to_i, :>, 0
    end
  end

  def test_a_thread_and_a_fiber_share_a_mutex
    each_run("shared_mutex") do |out|
      assert_equal ["thread has the mutex", "fiber has the mutex, others ticked while it waited", "thread has the mutex again"],
                   out.lines(chomp: true).map { |line| line.split("  ", 2).last }
    end
  end

  def test_a_thread_feeds_a_fiber
    each_run("thread_feeds_queue") do |out|
      assert_match(/item 0.*item 1.*item 2.*another fiber ran meanwhile/m, out)
      assert_match(/sum 190, never more than [012] in the queue/, out)
    end
  end

  def test_child_processes_run_at_once
    each_run("child_processes") do |out, again|
      ["system: 0", "backticks: hello", "Process.wait: 3", "IO.popen: world", "Process.detach"].each { |line| assert_includes out, line }
      assert_at_once(/5 processes in ([\d.]+) s/, out, 5, &again)
    end
  end

  def test_timeouts_end_long_waits
    each_run("timeout") do |out, again|
      assert_match(/with_timeout: the outer one.*Timeout\.timeout: execution expired/m, out)
      assert_at_once(/both in ([\d.]+) s/, out, 10, &again)
    end
  end

  def test_name_resolution_stops_no_other_task
    each_run("name_resolution") do |out, again|
      assert_equal 5, out.scan("localhost is").size
      assert_at_once(/5 names in ([\d.]+) s/, out, 2.5, &again)
      assert_operator out[/(\d+) ticks/, 1].to_i, :>, 0
    end
  end

  def test_timers_fire_once_and_again
    each_run("timers") do |out|
      assert_equal 1, out.scan(/  once$/).size
      assert_operator out.scan(/  tick$/).size, :>=, 2
      assert_equal ["beat 1", "beat 2", "beat 3"], out.scan(/beat \d/)
      assert_match(/^└── task "every 0\.1 s": stopping, .* \[transient, .* old, .*timers\.rb:18\]\n.*done\n\z/m, out)
    end
  end

  def test_a_scheduler_is_driven_by_hand
    each_run("scheduler_by_hand") do |out|
      assert_match(/\Aavailable: .*select\nboth wait\ngot "a line\\n"\nall is done\n\z/, out)
    end
  end

  LOOP_SERVERS.product(BACKENDS) do |name, backend|
    define_method("test_#{name}_on_#{backend || "the_best_backend"}_serves_keep_alive_connections_and_ends_by_control_c") do
      with_subprocess(*ruby_command(File.join(FOLDER, "#{name}.rb"), "0", env: { "GYRE_BACKEND" => backend })) do |pid, out, err|
        port = out.gets[/:(\d+)$/, 1].to_i
        assert_equal [3] * 20, Array.new(20) { Thread.new { ask_in_parts(port) } }.map(&:value)
        Process.kill(:INT, pid)
        assert_equal ["stopped\n", ""], [out.read, err.read]
      end
    end
  end

  # One connection: a request in two parts, then two at once.
  def ask_in_parts(port)
    request = "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"
    Socket.tcp("127.0.0.1", port) do |socket|
      socket.write(request[0, 10])
      socket.write(request[10..])
      answers = socket.readpartial(1000)
      socket.write(request * 2)
      answers << socket.readpartial(1000) until answers.scan("Hello, world!\n").size == 3
      answers.scan(%r{^HTTP/1\.1 200 OK\r$}).size
    end
  end

  def test_the_line_echo_protocol_runs_plain_and_over_tls
    skip "transports need the native engine" unless Gyre::Loop.native?
    require "support/transports"
    identity = GyreTest::Transports.identity("server")
    { [] => nil, identity => GyreTest::Transports.contexts.first }.each do |arguments, context|
      with_subprocess(*ruby_command(File.join(FOLDER, "line_echo.rb"), "tcp://localhost:0", *arguments)) do |pid, out, err|
        address = out.gets[/tcp:\S+:\d+/]
        Gyre.connect(address, tls: context) do |peer|
          peer.write("one\ntwo\nquit\n")
          assert_equal "1 one\n2 two\nbye\n", peer.read
        end
        Gyre.connect(address, tls: context) { |peer| assert_match(/at most 1024 bytes/, (peer << "x" * 1025).gets) }
        Process.kill(:INT, pid)
        assert_equal ["stopped\n", ""], [out.read, err.read]
      end
    end
  end

  def test_the_raw_http_server_answers_many_at_once
    BACKENDS.each do |backend|
      assert_at_once(/20 requests in ([\d.]+) s/, raw_http_server(backend), 6) { raw_http_server(backend) }
    end
  end

  # Returns what the server reported of itself after twenty requests at once.
  def raw_http_server(backend)
    command = ruby_command(File.join(FOLDER, "raw_http_server.rb"), "0", "20", env: { "GYRE_BACKEND" => backend })
    with_subprocess(*command) do |_pid, out, err|
      port = out.gets[/:(\d+)$/, 1].to_i
      answers = Array.new(20) { |index| Thread.new { get(port, "/#{index}") } }.map(&:value)
      answers.each_with_index { |answer, index| assert_match(%r{\AHTTP/1\.1 200 OK\r\n.*You asked for /#{index}, as \d+ others}m, answer) }
      out.read.tap { assert_equal "", err.read }
    end
  end

  def test_an_http_server_in_ractors_shares_its_port_and_ends_by_control_c
    skip "several Ractors need the native engine" unless Gyre::Loop.native?
    with_subprocess(*ruby_command("-W:no-experimental", File.join(FOLDER, "ractor_server.rb"), "0", "3")) do |pid, out, err|
      port = out.gets[/:(\d+) in 3 Ractors$/, 1].to_i
      bodies = Array.new(60) { Thread.new { get(port, "/", "connection: close\r\n")[/^Hello.*/] } }.map(&:value)
      assert_empty bodies - ["Hello from Ractor 1", "Hello from Ractor 2", "Hello from Ractor 3"]
      assert_operator bodies.uniq.size, :>, 1
      Process.kill(:INT, pid)
      assert_equal ["60 requests\n", ""], [out.read, err.read]
    end
  end

  def get(port, path, fields = "")
    Socket.tcp("127.0.0.1", port) do |socket|
      socket.write("GET #{path} HTTP/1.1\r\nhost: localhost\r\n#{fields}\r\n")
      socket.read
    end
  end
end
