# frozen_string_literal: true

# The accounting by route over workers: /metrics adds up their rows, and no sum falls when workers
# end, whichever way.

require "test_helper"
require "cluster/clusters"
require "support/open_metrics"

class ClusterRouteFiguresTest < Minitest::Test
  include GyreTest::Clusters

  # Responds with the worker's process and the CPU that the request took by its own clock.
  APP = <<~'RUBY'
    CPU = Process::CLOCK_THREAD_CPUTIME_ID
    run(lambda do |env|
      began = Process.clock_gettime(CPU)
      nil while Process.clock_gettime(CPU) < began + 0.01 && env["PATH_INFO"] == "/work"
      [200, {}, ["#{Process.pid} #{Process.clock_gettime(CPU) - began}"]]
    end)
  RUBY

  def test_rows_are_those_of_all_workers_and_stay_when_workers_end
    cluster("-w", "2", "--metrics", "unix://metrics.sock", app: APP) do |cluster, program|
      @socket = File.join(program.folder, "metrics.sock")
      first = work(cluster, 50)
      assert_equal 2, first.map(&:first).uniq.size, "each worker has a share"
      eventually { requests == 50 }
      assert_in_delta first.sum(&:last), rows("cpu_seconds").fetch("/work"), first.sum(&:last) * 0.2
      victim = first.first.first
      Process.kill(:KILL, victim)
      eventually(what: "another worker") { cluster.pids("worker").size == 2 && !cluster.pids("worker").include?(victim) }
      assert_equal 50, requests
      never_falling do
        truth = first + work(cluster, 20)
        cluster.restart("USR1", "Rolling") # also those of the last second, which no worker has reported yet
        assert_equal 70, requests
        assert_in_delta truth.sum(&:last), rows("cpu_seconds").fetch("/work"), truth.sum(&:last) * 0.2
        work(cluster, 20)
        cluster.restart("USR2", "Hot")
        eventually { requests == 90 }
      end
    end
  end

  def test_any_number_of_paths_has_few_rows_which_stay_apart_from_the_others
    cluster("-w", "2", "--metrics", "unix://metrics.sock", app: APP) do |cluster, program|
      @socket = File.join(program.folder, "metrics.sock")
      never_falling do
        pids = 10_000.times.each_slice(250).map { |numbers| pipelined(program, numbers.map { |number| "/#{number.to_s.tr("0-9", "a-j")}" }) }
        assert_equal 2, pids.uniq.size, "each worker has a share"
        eventually { rows("requests").values.sum == 10_000 }
        assert_operator rows("requests")["(other)"], :>, 9000
        assert_operator %w[requests cpu_seconds].flat_map { |name| rows(name).keys }.uniq.size, :<=, 201
        before = rows("requests")
        Process.kill(:KILL, pids.first)
        eventually(what: "another worker") { cluster.pids("worker").size == 2 && !cluster.pids("worker").include?(pids.first) }
        assert_equal before, rows("requests")
        cluster.restart("USR1", "Rolling")
        assert_equal before, rows("requests")
      end
    end
  end

  private

  # Returns process and CPU seconds of each request.
  def work(cluster, count)
    Array.new(count) { cluster.get("/work").then { |pid, cpu| [pid, Float(cpu)] } }
  end

  # Returns the process that has responded.
  def pipelined(program, paths)
    socket = TCPSocket.new("127.0.0.1", program.port)
    socket.write(paths[0..-2].map { |path| "GET #{path} HTTP/1.1\r\nhost: localhost\r\n\r\n" }.join)
    socket.write("GET #{paths.last} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
    bodies = socket.read.scan(/^(\d+) [\d.e-]+/).flatten
    assert_equal [paths.size, 1], [bodies.size, bodies.uniq.size]
    bodies.first.to_i
  ensure
    socket&.close
  end

  def requests = rows("requests").fetch("/work", 0)

  # Returns the values of a figure by route.
  def rows(name)
    families = GyreTest::OpenMetrics.parse(metrics)
    (families["gyre_route_#{name}"]&.samples || []).to_h { |sample| [sample.labels["route"], sample.value] }
  end

  def metrics
    socket = UNIXSocket.new(@socket)
    socket.write("GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
    socket.read.partition("\r\n\r\n").last.force_encoding(Encoding::UTF_8)
  ensure
    socket&.close
  end

  # Fails if a counter falls while the block runs.
  def never_falling
    stop = false
    watching = Thread.new do
      rows = {}
      fell = nil
      until stop || fell
        text = metrics rescue next # the program is being replaced
        text.scan(/^(gyre_route_requests_total\S+|gyre_http_requests_total) (\d+)$/) do |name, value|
          fell ||= "#{name}: #{rows[name]}, then #{value}" if value.to_i < rows[name].to_i
          rows[name] = value.to_i
        end
        sleep 0.01
      end
      fell
    end
    yield
    stop = true
    assert_nil watching.value
  ensure
    watching&.kill&.join
  end
end
