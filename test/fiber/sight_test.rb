# frozen_string_literal: true

# Accounting by route and task (ext/gyre/fiber/sight.c): the sums are compared with a CPU clock that
# the app itself keeps.

require "test_helper"
require "http/h2/contract"
require "http/serving"
require "websocket/serving"
require "tempfile"

module GyreTest
  # Helpers of the tests of tasks and of requests.
  module Sight
    CPU = Process::CLOCK_THREAD_CPUTIME_ID
    # Beside the app's own code, which is slow under the slow tools, as are finalizers.
    OVERHEAD_S = HTTPServing::PATIENCE_S > 30 ? 0.3 : 0.03

    private

    # Returns the thread's CPU seconds.
    def cpu_of
      began = Process.clock_gettime(CPU)
      yield
      Process.clock_gettime(CPU) - began
    end

    # Computes for that time; returns how long it took.
    def compute(seconds)
      began = Process.clock_gettime(CPU)
      loop do
        spent = Process.clock_gettime(CPU) - began
        return spent if spent >= seconds
      end
    end

    # A collection is charged to the code in which it happens to run.
    def without_collections(collects)
      return yield if collects

      GC.start
      GC.disable
      yield
    ensure
      GC.enable
    end

    def assert_near(truth, measured) = assert_includes(((truth * 0.85) - 0.01)..((truth * 1.15) + OVERHEAD_S), measured)
  end

  # Cases of requests, for both versions of HTTP.
  module SightOfRequests
    def test_a_request_is_charged_to_its_route_or_to_its_path_s_pattern
      app = lambda do |env|
        env["gyre.route"] = "/posts/:id" if env["PATH_INFO"].start_with?("/posts")
        compute(0.03)
        [env["PATH_INFO"] == "/no" ? 404 : 200, {}, []]
      end
      paths = %w[/posts/1 /posts/2 / /a/b?c /a/b /users/1/x /users/22/x /no /of/a-name-of-more-than-twenty]
      rows = { "/posts/:id" => 2, "/" => 1, "/a/b" => 2, "/users/*/x" => 2, "(none)" => 1, "/of/*" => 1 }
      usage = usage_of(app) { |client| paths.each { |path| client.get("GET #{path} HTTP/1.1") } }
      assert_equal rows, usage.transform_values { |row| row[:requests] }.reject { |_, count| count.zero? }
      rows.each { |label, count| assert_near 0.03 * count, usage[label][:cpu_s] }
    end

    def test_children_are_charged_to_their_request_also_after_its_end
      ended = Thread::Queue.new
      app = lambda do |_env|
        Fiber.schedule do
          sleep 0.01
          Fiber.schedule { compute(0.05) }
          ended << true
        end
        [200, {}, []]
      end
      usage = usage_of(app) do |client|
        client.get("GET /parent HTTP/1.1")
        ended.pop
        client.get("GET /other HTTP/1.1")
      end
      assert_near 0.05, usage["/parent"][:cpu_s]
      assert_near 0, usage["/other"][:cpu_s]
      refute(usage.keys.any? { |label| label.start_with?(__FILE__) })
    end

    def test_a_long_request_is_charged_while_it_runs
      go = Thread::Queue.new
      app = lambda do |_env|
        compute(0.12)
        go.pop
        [200, {}, []]
      end
      running = nil
      usage = usage_of(app) do |client, served|
        client.request("GET /long HTTP/1.1")
        eventually { (running = served.on_loop { Gyre::Loop.usage }).key?("/long") }
        go << true
        client.response
      end
      assert_near 0.12, running["/long"][:cpu_s]
      assert_equal [0, 1], [running, usage].map { |each| each["/long"][:requests] }
    end

    # Each stretch of the app's work is measured by the app itself; between them other requests run.
    def test_sums_agree_with_the_app_s_clock_beside_programs_a_thread_and_garbage
      truth = Hash.new(0)
      app = lambda do |env|
        path = env["PATH_INFO"]
        2.times do
          truth[path] += cpu_of { path == "/clock" ? compute(0.004) : 10_000.times { "x" * 100 } }
          sleep 0.0005
        end
        [200, {}, []]
      end
      usage = usage_of(app, collects: true) do |_, served|
        beside_busy_work do
          clients = Array.new(6) { connect(served) }
          clients.each_with_index.map { |client, index| Thread.new { 4.times { client.get("GET #{index.odd? ? "/clock" : "/strings"} HTTP/1.1") } } }
                 .each(&:join)
        end
      end
      assert_equal [12, 12], %w[/clock /strings].map { |path| usage[path][:requests] }
      %w[/clock /strings].each { |path| assert_share truth[path], usage[path], path }
    end

    # Some begin others, and all work at the same time as requests of another route.
    def test_sums_of_children_that_outlive_their_requests_agree_with_the_app_s_clock
      truth = Hash.new(0)
      ended = Thread::Queue.new
      app = lambda do |env|
        path = env["PATH_INFO"]
        child = lambda do |depth|
          3.times { sleep(0.002) && truth[path] += compute(0.002) }
          depth.positive? ? Fiber.schedule { child.call(depth - 1) } : ended << true
        end
        Fiber.schedule { child.call(2) }
        truth[path] += compute(0.001)
        [200, {}, []]
      end
      usage = usage_of(app) do |client|
        10.times { |number| client.get("GET #{number.odd? ? "/a" : "/b"} HTTP/1.1") }
        10.times { ended.pop }
        client.get("GET /b HTTP/1.1")
        ended.pop
      end
      assert_equal [5, 6], %w[/a /b].map { |path| usage[path][:requests] }
      %w[/a /b].each { |path| assert_share truth[path], usage[path], path }
    end

    private

    # Programs take the processors, and a thread of this process computes.
    def beside_busy_work
      programs = Array.new(2) { fork { nil while true } }
      thread = Thread.new { compute(0.01) && sleep(0.001) while true }
      yield
    ensure
      thread&.kill&.join
      programs&.each { |pid| Process.kill(:KILL, pid) && Process.wait(pid) }
    end

    # The server's own code around the app's is a part of a request.
    def assert_share(truth, row, route)
      assert_includes((truth * 0.95)..((truth * 1.1) + (row[:requests] * Sight::OVERHEAD_S / 100)), row[:cpu_s], route)
    end

    def usage_of(app, collects: false)
      usage = nil
      serve(app) do |served|
        without_collections(collects) { yield connect(served), served }
        usage = served.on_loop do
          sleep 0.001 # a stream may be over before its handler is
          Gyre::Loop.usage
        end
      end
      usage
    end
  end
end

class SightHTTP1Test < Minitest::Test
  include GyreTest::WebSocketServing
  include GyreTest::Sight
  include GyreTest::SightOfRequests

  # Pipelined requests share a fiber.
  def test_any_number_of_paths_has_few_rows
    app = ->(env) { [200, {}, [env["PATH_INFO"]]] }
    usage = usage_of(app) do |client|
      10_000.times.each_slice(500) do |numbers|
        paths = numbers.map { |number| "/#{number.to_s.tr("0-9", "a-j")}" }
        client.write(paths.map { |path| "GET #{path} HTTP/1.1\r\nhost: gyre.test\r\n\r\n" }.join)
        assert_equal paths, (paths.map { client.response.body })
      end
    end
    requests = usage.transform_values { |row| row[:requests] }
    assert_equal 10_000, requests.values.sum
    assert_operator usage.size, :<=, 200
    assert_operator requests["(other)"], :>, 9000
  end

  def test_pipelined_requests_of_two_routes_have_their_own_sums
    truth = Hash.new(0)
    app = lambda do |env|
      path = env["PATH_INFO"]
      truth[path] += compute(path == "/a" ? 0.0002 : 0.001)
      sleep 0.0001 if path == "/b"
      [200, {}, []]
    end
    usage = usage_of(app) do |client|
      client.write("GET /a HTTP/1.1\r\nhost: gyre.test\r\n\r\nGET /b HTTP/1.1\r\nhost: gyre.test\r\n\r\n" * 100)
      200.times { client.response }
    end
    assert_equal [100, 100], %w[/a /b].map { |path| usage[path][:requests] }
    %w[/a /b].each { |path| assert_share truth[path], usage[path], path }
  end

  def test_rows_survive_compaction_and_stress
    skip "this Ruby does not compact" unless compacts?
    app = lambda do |env|
      env["gyre.route"] = "/#{env["PATH_INFO"][1]}"
      Fiber.schedule { sleep 0 }
      [200, {}, []]
    end
    usage = usage_of(app, collects: true) do |client, served|
      2.times do
        GC.stress = 1
        3.times { |number| client.get("GET /#{number} HTTP/1.1") }
        GC.stress = false
        served.on_loop { GC.verify_compaction_references(toward: :empty, expand_heap: true) }
      end
    ensure
      GC.stress = false
    end
    assert_equal [2, 2, 2], %w[/0 /1 /2].map { |label| usage[label][:requests] }
  end

  def test_the_code_of_a_websocket_is_charged_to_it
    app = socket_app { |socket| socket.each { compute(0.02) && socket.write("done") } }
    usage = nil
    serve(app) do |served|
      peer = open_websocket(served, "/talk/7")
      2.times { peer.text("x") && peer.frame }
      usage = served.on_loop { Gyre::Loop.usage }
    end
    assert_near 0.04, usage["WS /talk/*"][:cpu_s]
    assert_equal 1, usage["WS /talk/*"][:requests]
  end
end

class SightHTTP2Test < Minitest::Test
  include GyreTest::HTTPServing
  include GyreTest::H2Contract
  include GyreTest::Sight
  include GyreTest::SightOfRequests
end

class SightTest < Minitest::Test
  include GyreTest::Sight

  def test_a_task_is_charged_under_its_name_or_its_place
    line = __LINE__ + 4
    usage = usage_of do |task|
      named = task.async("named") { compute(0.05) }
      waiting = task.async { sleep 0.01 }
      placed = task.async { compute(0.02) }
      [named, waiting, placed].each(&:wait)
    end
    assert_near 0.05, usage["named"][:cpu_s]
    assert_near 0.02, usage["#{__FILE__}:#{line}"][:cpu_s]
    assert_near 0, usage["#{__FILE__}:#{line - 1}"][:cpu_s]
  end

  def test_places_of_many_files_and_lines_are_kept_apart_over_compaction
    made = %w[a.rb b.rb c.rb].product([1, 17, 33, 34]).map.with_index(5) { |(file, line), index| [file, line, index * 1000] }
    usage = usage_of(collects: true) do |task|
      3.times do
        made.each { |file, line, count| task.async(&eval("proc { Array.new(#{count}) { Object.new } }", nil, file.dup, line)).wait }
        GC.compact
      end
    end
    made.each { |file, line, count| assert_includes count * 3..(count * 3) + 900, usage["#{file}:#{line}"][:allocations] }
  end

  def test_a_task_that_waits_for_its_time_has_the_place_of_its_block
    usage = usage_of do |task|
      task.every(0.001) { compute(0.02) }
      task.after(0.002) { compute(0.02) }.wait
    end
    places = usage.keys.grep(/:\d+\z/)
    assert_equal Array.new(2) { |index| "#{__FILE__}:#{__LINE__ - 4 + index}" }, places
  end

  def test_programs_and_garbage_beside_a_task_do_not_change_its_cpu
    truth = {}
    busy = Array.new(2) { fork { nil while true } }
    usage = usage_of(collects: true) do |task|
      [-> { compute(0.1) }, -> { cpu_of { 50_000.times { "x" * 100 } } }].each_with_index do |work, index|
        task.async(index.to_s) do
          truth[index.to_s] = Array.new(3) { sleep(0.001) && work.call }.sum
        end
      end
    end
    truth.each { |name, seconds| assert_near seconds, usage[name][:cpu_s] }
  ensure
    busy&.each { |pid| Process.kill(:KILL, pid) && Process.wait(pid) }
  end

  def test_a_blocking_call_is_no_cpu
    usage = usage_of do |task|
      task.async("blocks") { Fiber.new(blocking: true) { sleep 0.1 }.resume }
    end
    assert_operator usage["blocks"][:cpu_s], :<, 0.02 + OVERHEAD_S
    assert_operator usage["blocks"][:blocked_s], :>=, 0.09
    assert_operator usage["blocks"][:longest_s], :>=, 0.1
  end

  def test_a_thread_that_computes_meanwhile_is_charged_apart
    truth = nil
    usage = usage_of do |task|
      task.async("main") do
        thread = Thread.new { compute(0.2) }
        truth = compute(0.1)
        thread.join
      end.wait
    end
    assert_near truth, usage["main"][:cpu_s]
    assert_near 0.2, usage["(threads)"][:cpu_s]
  end

  def test_all_rows_together_are_the_thread_s_clock
    truth = nil
    usage = usage_of do |task|
      began = Process.clock_gettime(CPU)
      10.times.map { |i| task.async("task") { 200.times { sleep(0.0001 * (i % 3)) } } }.each(&:wait)
      truth = Process.clock_gettime(CPU) - began
    end
    sum = usage.except("(threads)").sum { |_, row| row[:cpu_s] }
    assert_near truth, sum
  end

  def test_a_wait_for_a_lock_of_a_file_is_blocked_time
    usage = Tempfile.create do |file|
      holder = File.open(file.path)
      holder.flock(File::LOCK_EX)
      thread = Thread.new { sleep(0.1) && holder.close }
      usage_of { |task| task.async("locks") { Fiber.new(blocking: true) { file.flock(File::LOCK_EX) }.resume } }.tap { thread.join }
    end
    assert_operator usage["locks"][:blocked_s], :>, 0.08
    assert_operator usage["locks"][:cpu_s], :<, 0.02 + OVERHEAD_S
  end

  def test_objects_are_counted_where_they_are_made
    usage = usage_of do |task|
      task.async("makes") { 10_000.times { Object.new } }
      task.async("makes none") { compute(0.01) }
    end
    assert_in_delta 10_000, usage["makes"][:allocations], 1000
    assert_operator usage["makes none"][:allocations], :<, 1000
  end

  def test_a_forked_child_begins_at_zero
    usage_of do |task|
      task.async("before") { compute(0.05) }.wait
      reader, writer = IO.pipe
      pid = fork do
        compute(0.02)
        writer.write(Marshal.dump([Gyre::Loop.usage, Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID)]))
        writer.close
        exit!(0)
      end
      writer.close
      usage, truth = Marshal.load(reader.read)
      reader.close
      Process.wait(pid)
      assert_in_delta 0, usage["before"][:cpu_s], 0.001
      assert_includes 0.02..truth, usage["all"][:cpu_s]
    end
  end

  def test_a_nested_run_and_the_loop_within_a_task_are_not_the_task_s
    usage = usage_of do |task|
      task.async("outer") { Gyre.run("inner") { compute(0.1) } }.wait
    end
    assert_near 0.1, usage["inner"][:cpu_s]
    assert_operator usage["outer"][:cpu_s], :<, 0.02 + OVERHEAD_S
  end

  private

  def usage_of(collects: false)
    without_collections(collects) do
      Gyre.run("all") do |task|
        yield task
        task.wait_all
        Gyre::Loop.usage
      end
    end
  end
end
