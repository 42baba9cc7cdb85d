# frozen_string_literal: true

# What `gyre top` shows: Gyre::CLI::Top::View.

require "test_helper"
require "gyre/cli/top"
require "gyre/web/control/snapshot"

class CLITopViewTest < Minitest::Test
  View = Gyre::CLI::Top::View

  def test_figures_are_those_of_the_time_between_two_statuses
    text = picture(status(worker(requests: 300, time: 12.0)), status(worker(requests: 100, time: 10.0)))
    assert_includes text, "100 requests/s"
    assert_includes text, "gyre 1.2  process 7  1 worker  http://localhost:9292"
    assert_match(/^1 +70 +100 +2 +5 +1 +9 +<5 ms +<250 us +76 MB +-/, text)
  end

  def test_websockets_have_a_line_once_there_were_any
    counts = { "upgraded" => 12, "upgrades" => 40, "messages_received" => 50, "messages_sent" => 3000 }
    busy = worker.tap { |each| each["snapshot"].merge!(counts) }
    assert_includes picture(status(busy)), "\n12 WebSockets  messages in 5.0/s  out 300/s\n"
    refute_includes picture(status(worker)), "WebSockets"
  end

  def test_cables_have_a_line_once_there_were_any
    cables = [{ "open" => 3, "subscriptions" => 5, "broadcasts" => 0 }, { "open" => 2, "subscriptions" => 2, "broadcasts" => 20 }]
    busy = cables.map.with_index { |cable, number| worker(pid: 71 + number).tap { |each| each["snapshot"]["cable"] = cable } }
    assert_includes picture(status(*busy)), "\n5 cables  7 subscriptions  2.0 broadcasts/s\n"
    idle = worker.tap { |each| each["snapshot"]["cable"] = { "open" => 0, "subscriptions" => 0, "broadcasts" => 0 } }
    refute_includes picture(status(idle, worker)), "cables"
  end

  def test_the_budget_that_is_used_most_is_shown
    budgets = { "buffered_bytes" => { "heads" => 0, "input" => 5, "output" => 40 }, "files" => 3, "files_limit" => 500,
                "buffered_bytes_limit" => { "heads" => 100, "input" => 100, "output" => 100 } }
    busy = worker.tap { |each| each["snapshot"].merge!(budgets) }
    assert_match(/ MB +output 40% /, picture(status(busy)))
    busy["snapshot"]["files"] = 500
    assert_match(/ MB +files 100% /, picture(status(busy)))
  end

  def test_a_single_status_is_that_of_the_whole_life
    assert_includes picture(status(worker(requests: 100))), "10.0 requests/s"
  end

  def test_workers_are_added_up
    text = picture(status(worker(requests: 100), worker(pid: 71, requests: 300)))
    assert_includes text, "40.0 requests/s"
    assert_includes text, "2 workers"
  end

  def test_a_worker_that_has_not_reported_yet_is_in_it
    assert_match(/^2 +72 +booting$/, picture(status(worker, { "name" => "2", "pid" => 72, "phase" => "booting", "snapshot" => nil })))
  end

  def test_running_requests_are_sorted_the_slowest_first
    text = picture(status(worker(slowest: [request("/fast", 0.5), request("/slow", 75)])))
    assert_match(%r{75 s +1 +GET /slow +203\.0\.113\.9\n.*500 ms +1 +GET /fast}, text)
    assert_includes picture(status(worker)), "no request is running"
  end

  def test_no_client_can_move_the_cursor
    text = picture(status(worker(slowest: [request("/\e[2J\u009b31m\u202e\xff\r\n", 1.0)])))
    refute_match(/[^ -~\n]/, text)
    assert_includes text, "GET /?[2J?31m???"
  end

  def test_it_fits_the_terminal
    lines = View.new(status(*Array.new(50) { |index| worker(pid: 100 + index) })).lines(40, 10)
    assert_equal 10, lines.size
    assert_operator lines.map(&:length).max, :<=, 40
    assert_equal 1, View.new(status(worker)).lines(1, 1).size
  end

  def test_80_columns_have_the_most_important_figures_uncut
    lines = View.new(status(worker(requests: 100), worker(requests: 20))).lines(80, 24)
    assert_operator lines.map(&:length).max, :<=, 80
    assert_match(/^1 +70 +10.0 +2 +5 +1 +9 +<5 ms +<250 us +76 MB +10 s$/, lines.join("\n"))
    assert_match(%r{^in \S+ \w+/s +out \S+ \w+/s$}, lines.first(3).join("\n"))
  end

  def test_routes_are_sorted_by_cpu_and_added_up_over_workers
    before = [worker(time: 9.0), worker(pid: 71, time: 9.0)]
    now = [{ "/a" => 0.1, "/b" => 0.5 }, { "/a" => 0.7, "(loop)" => 0.01 }].each_with_index.map do |cpu, number|
      worker(pid: 70 + number).tap do |each|
        each["snapshot"]["routes"] = { "cpu_s" => cpu, "requests" => { "/a" => 40 }, "blocked_s" => { "/b" => 0.25 },
                                       "longest_s" => { "/a" => 0.01 * (number + 1) }, "allocations" => { "/a" => 500 } }
      end
    end
    lines = View.new(status(*now), status(*before), routes: true).lines(80, 24)
    assert_equal ["   CPU    REQ/S   CPU/REQ  BLOCKED   LONGEST  OBJECTS/S  ROUTE OR TASK",
                  "   80%     80.0   10.0 ms       0%     20 ms      1,000  /a",
                  "   50%        -         -      50%         -        0.0  /b",
                  "    1%        -         -       0%         -        0.0  (loop)"], lines.last(4)
    assert_equal 1, View.new(status(worker), routes: true).lines.count { |line| line.include?("ROUTE") }
  end

  def test_narrow_terminals_have_fewer_figures_and_both_ends_of_a_long_route
    long = "/api/v1/organizations/:organization_id/projects/:id"
    busy = worker.tap { |each| each["snapshot"]["routes"] = { "cpu_s" => { long => 1.0, "/a" => 0.5 }, "requests" => { long => 10 } } }
    { 120 => ["OBJECTS/S", long], 80 => ["OBJECTS/S", "/api/v1..d/projects/:id"], 60 => ["BLOCKED", "/api/v1/..d/projects/:id"],
      48 => ["CPU/REQ", "/api/v1..projects/:id"], 30 => ["REQ/S", "/api..cts/:id"], 12 => ["REQ/S", ""] }.each do |width, (last, label)|
      lines = View.new(status(busy), routes: true).lines(width, 24)
      assert_operator lines.map(&:length).max, :<=, width
      heads, first, second = lines.last(3)
      next if width < 30

      assert_match(/ #{last}  ROUTE/, heads)
      assert_equal label, first[/  (\S+)\z/, 1], width
      assert_equal ["/a", first.index(label)], [second[/  (\S+)\z/, 1], second.index("/a")], width
    end
  end

  def test_an_error_stands_beside_the_last_status
    assert_equal "it is gone", View.new(status(worker), nil, error: "it is gone").lines[1]
    assert_includes View.new(nil, nil, error: "refused", server: "tcp://a:1").lines.join, "tcp://a:1: asking"
  end

  def test_its_bounds_are_the_servers
    other = worker(requests: 100, bounds: (1..16).to_a)
    assert_match(/^1 +70 +10.0 +2 +5 +1 +9 +<5 s +<1 s/, picture(status(other)))
    old = worker(requests: 100).tap { |each| each["snapshot"].delete("bounds_s") }
    assert_includes picture(status(old)), "p50 -  p99 -  lag p99 -"
  end

  def test_a_worker_of_another_version_is_left_out_of_the_sums
    text = picture(status(worker(requests: 100), worker(pid: 71, requests: 300, bounds: [1, 2])))
    assert_includes text, "p99 <5 ms"
  end

  private

  def picture(*statuses) = View.new(*statuses).lines.join("\n")

  def status(*workers) = { "version" => "1.2", "pid" => 7, "workers" => workers }

  def request(path, seconds) = { "method" => "GET", "path" => path, "seconds" => seconds, "remote" => "203.0.113.9" }

  def worker(pid: 70, requests: 0, time: 10.0, slowest: [], bounds: Gyre::Web::Snapshot::BOUNDS_S)
    durations = [0, 0, 0, requests * 9 / 10, requests / 10, *Array.new(12, 0)]
    { "name" => "1", "pid" => pid, "snapshot" => {
      "pid" => pid, "urls" => ["http://localhost:9292"], "bounds_s" => bounds, "uptime_s" => 10.0, "time" => time, "requests" => requests,
      "connections" => { "open" => 8, "running" => 2, "idle" => 5, "waiting" => 1 }, "responses" => { "2xx" => requests, "5xx" => 0 },
      "durations" => { "counts" => durations, "sum_s" => 1.0 }, "lag" => { "counts" => [requests + 1, *Array.new(16, 0)], "sum_s" => 0.1 },
      "received_bytes" => 1000, "sent_bytes" => 5000, "tasks" => 9, "gc" => { "time_s" => 0.5 }, "memory_bytes" => 80_000_000,
      "slowest" => slowest
    } }
  end
end
