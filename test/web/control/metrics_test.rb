# frozen_string_literal: true

# Snapshots as text for Prometheus: Gyre::Web::Metrics, read back by a strict parser.

require "test_helper"
require "json"
require "support/open_metrics"
require "gyre/web/control/metrics"

class WebMetricsTest < Minitest::Test
  Metrics = Gyre::Web::Metrics
  BOUNDS = Gyre::Web::Snapshot::BOUNDS_S.size + 1

  def test_it_is_open_metrics_with_sums_and_the_parts_of_each_worker
    families = parse("1" => snapshot(requests: 3), "2" => snapshot(requests: 4))
    assert_equal [7.0], values(families, "gyre_http_requests")
    assert_equal({ { "worker" => "1" } => 3.0, { "worker" => "2" } => 4.0 },
      families["gyre_worker_http_requests"].samples.to_h { |sample| [sample.labels, sample.value] })
    assert_equal [2.0], values(families, "gyre_workers")
    assert_equal({ "version" => "1.2", "ruby" => "3.4.5" }, families["gyre_info"].samples.first.labels)
  end

  def test_histograms_are_cumulative_and_added_bucket_by_bucket
    families = parse("1" => snapshot(first: 2), "2" => snapshot(first: 3))
    samples = families["gyre_http_request_duration_seconds"].samples
    assert_equal [5.0, 7.0], [samples.first.value, samples.find { |sample| sample.labels["le"] == "+Inf" }.value]
    assert_equal 3.0, samples.find { |sample| sample.name.end_with?("_sum") }.value
  end

  def test_a_hash_becomes_labels
    responses = parse("1" => snapshot, "2" => snapshot)["gyre_http_responses"].samples
    assert_equal [[{ "class" => "2xx" }, 4.0], [{ "class" => "5xx" }, 2.0]], responses.map { |sample| [sample.labels, sample.value] }
    assert_equal %w[running idle waiting], parse("1" => snapshot)["gyre_http_connections"].samples.map { |sample| sample.labels["state"] }
  end

  def test_routes_are_sums_only_and_bounded_however_many_each_worker_has
    parts = Array.new(3) { |worker| Array.new(150) { |index| ["/#{worker}/#{index}", 1] }.to_h.merge("/both" => 2) }
    all = parts.each_with_index.to_h { |routes, index| [index.to_s, snapshot.merge("routes" => { "requests" => routes })] }
    families = parse(**all, ended: Metrics.add(nil, all["0"]))
    samples = families["gyre_route_requests"].samples.to_h { |sample| [sample.labels["route"], sample.value] }
    assert_equal [201, 8.0, 608.0], [samples.size, samples["/both"], samples.values.sum]
    refute families.key?("gyre_worker_route_requests")
  end

  def test_routes_stay_apart_from_the_others_whichever_worker_ends_first
    workers = Array.new(3) { |worker| snapshot.merge("routes" => { "requests" => Array.new(150) { |index| ["/#{worker}/#{index}", 1] }.to_h }) }
    ended = nil
    workers.each { |each| ended = Metrics.reserve(ended, each) }
    rows = lambda do |live|
      families = parse(**live.to_h { |each| [workers.index(each).to_s, each] }, ended: ended)
      families["gyre_route_requests"].samples.to_h { |sample| [sample.labels["route"], sample.value] }
    end
    before = rows.call(workers)
    assert_equal [201, 450.0, 250.0], [before.size, before.values.sum, before["(other)"]]
    [2, 0, 1].each_with_index do |index, count|
      ended = Metrics.add(ended, workers[index])
      assert_equal before, rows.call(workers - workers.values_at(*[2, 0, 1].first(count + 1)))
    end
  end

  def test_sums_do_not_fall_when_a_worker_ends
    ended = Metrics.add(Metrics.add(nil, snapshot(requests: 5)), snapshot(requests: 6))
    families = parse("3" => snapshot(requests: 1), ended: ended)
    assert_equal [12.0], values(families, "gyre_http_requests")
    assert_equal [12.0], values(families, "gyre_gc_runs")
    assert_equal [3.0], values(families, "gyre_tasks"), "a gauge is of those that live"
    assert_equal 6.0, families["gyre_http_request_duration_seconds"].samples.find { |sample| sample.labels["le"] == "+Inf" }.value
  end

  def test_the_age_of_the_sums_is_that_of_the_oldest_report
    families = parse("1" => snapshot.merge("report_age_s" => 0.5), "2" => snapshot.merge("report_age_s" => 7.25))
    assert_equal [7.25], values(families, "gyre_report_age_seconds")
    assert_equal [0.5, 7.25], values(families, "gyre_worker_report_age_seconds")
  end

  def test_the_certificate_that_ends_first_counts
    families = parse("1" => snapshot.merge("certificate_expires" => 1_900_000_000), "2" => snapshot.merge("certificate_expires" => 1_800_000_000))
    assert_equal [1_800_000_000.0], values(families, "gyre_tls_certificate_expiry_timestamp_seconds")
  end

  def test_waits_in_the_queue_are_a_histogram
    waits = { "counts" => [2, *Array.new(BOUNDS - 1, 0)], "sum_s" => 0.25 }
    samples = parse("1" => snapshot.merge("waits" => waits))["gyre_http_request_queue_seconds"].samples
    assert_equal 2.0, samples.find { |sample| sample.labels["le"] == "+Inf" }.value
    assert_equal 0.25, samples.find { |sample| sample.name.end_with?("_sum") }.value
  end

  def test_values_that_a_snapshot_lacks_are_left_out
    families = parse("1" => snapshot.merge("memory_bytes" => nil))
    refute families.key?("gyre_memory_bytes")
    refute families.key?("gyre_worker_memory_bytes")
  end

  def test_a_snapshot_that_is_none_is_told_apart
    assert Metrics.readable?(snapshot)
    assert Metrics.readable?(JSON.parse(JSON.generate(snapshot)))
    wrong = [5, nil, [1], "x", { "requests" => "x" }, { "durations" => 3 }, { "durations" => { "counts" => [1], "sum_s" => 0 } },
             { "gc" => 1 }, { "responses" => { "2xx" => nil } }, { "connections" => [] }]
    wrong.each { |each| refute Metrics.readable?(each.is_a?(Hash) ? snapshot.merge(each) : each), each.inspect }
  end

  def test_without_workers_there_is_still_a_valid_text
    assert_equal %w[gyre_info gyre_workers], parse.keys
  end

  def test_a_worker_may_have_any_name
    assert_equal "a\"b\\c\nd", parse("a\"b\\c\nd" => snapshot)["gyre_worker_http_requests"].samples.first.labels["worker"]
  end

  # What the parser is for.
  def test_the_parser_refuses_wrong_input
    head = "# TYPE a counter\n# HELP a b\n"
    {
      "no EOF" => "#{head}a_total 1\n", "no family" => "a_total 1\n# EOF\n", "suffix" => "#{head}a 1\n# EOF\n",
      "twice" => "#{head}a_total 1\na_total 2\n# EOF\n", "no help" => "# TYPE a gauge\na 1\n# EOF\n",
      "interleaved" => "#{head}a_total 1\n# TYPE b gauge\n# HELP b c\nb 1\na_total{x=\"1\"} 1\n# EOF\n",
      "unit" => "# TYPE a gauge\n# UNIT a seconds\n# HELP a b\na 1\n# EOF\n", "label" => "#{head}a_total{b=1} 1\n# EOF\n",
      "falling" => "# TYPE h histogram\n# HELP h b\nh_bucket{le=\"1.0\"} 2\nh_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 1\n# EOF\n"
    }.each { |what, text| assert_raises(GyreTest::OpenMetrics::Invalid, what) { GyreTest::OpenMetrics.parse(text) } }
  end

  private

  def snapshot(requests: 1, first: 1)
    counts = [first, *Array.new(BOUNDS - 2, 0), 1]
    { "version" => "1.2", "ruby" => "3.4.5", "pid" => 1, "uptime_s" => 2.5, "requests" => requests,
      "responses" => { "2xx" => 2, "5xx" => 1 }, "durations" => { "counts" => counts, "sum_s" => 1.5 },
      "lag" => { "counts" => counts, "sum_s" => 0.00001 }, "malformed" => 0, "accepted" => 1, "refused" => 0, "handshakes_failed" => 0,
      "received_bytes" => 10, "sent_bytes" => 1 << 40, "connections" => { "open" => 3, "idle" => 1, "running" => 1, "waiting" => 1 },
      "tasks" => 3, "threads" => 1, "gc" => { "count" => 4, "time_s" => 0.012, "live_slots" => 100, "heap_bytes" => 65_536 },
      "memory_bytes" => 1000 }
  end

  def parse(ended: nil, **snapshots) = GyreTest::OpenMetrics.parse(Metrics.text(snapshots, ended: ended))

  def values(families, name) = families.fetch(name).samples.map(&:value)
end
