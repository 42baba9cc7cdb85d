# frozen_string_literal: true

# Connections of sockets that several processes share are taken in turns, on each backend: none is
# left waiting, however many come at once, and a stop takes what waits. A process that stands still
# leaves its share to the others, and has the next ones when it goes on.

require "test_helper"
require "gyre"
require "support/processes"
require "web/serving"

class ClusterTurnsTest < Minitest::Test
  include GyreTest::Serving

  APP = "run ->(env) { [200, {}, [Process.pid.to_s]] }"

  def test_all_connections_are_taken_on_epoll = check_all_connections_are_taken("epoll")

  def test_all_connections_are_taken_on_io_uring = check_all_connections_are_taken("io_uring")

  def check_all_connections_are_taken(backend)
    skip "#{backend} does not open here" unless Gyre::Scheduler.availables.include?(backend)
    serve("-w", "2", app: APP, env: { "GYRE_BACKEND" => backend }) do |program|
      sockets = Array.new(200) { program.request("/", connection: "keep-alive") }
      assert(sockets.all? { |socket| socket.gets("\r\n\r\n").start_with?("HTTP/1.1 200") })
    ensure
      sockets&.each(&:close)
    end
  end

  def test_a_worker_with_far_fewer_connections_has_the_next_ones_and_one_that_stands_still_has_none
    serve("-w", "2", app: APP) do |program|
      still, other = workers(program)
      GyreTest::Processes.stop(still)
      sockets = connect(program, 20)
      assert_equal({ other => 20 }, sockets.values.tally)
      Process.kill(:CONT, still)
      sockets.update(connect(program, 1)) until sockets.values.include?(still) # it goes on when the system lets it
      assert 60.times.any? { next_ones(program) == { still => 12 } || sleep(0.2).zero? }, "it had far fewer all the time"
    ensure
      sockets&.each_key(&:close)
    end
  end

  private

  def workers(program)
    pids = {}
    eventually(what: "two workers") { pids.update(connect(program, 1).each_key(&:close).invert).size == 2 }
    pids.keys
  end

  # On a busy machine a worker may be late for its turn.
  def next_ones(program)
    sockets = connect(program, 12)
    sockets.values.tally
  ensure
    sockets&.each_key(&:close)
  end

  def connect(program, count)
    Array.new(count) { program.request("/", connection: "keep-alive") }.to_h do |socket|
      length = socket.gets("\r\n\r\n")[/content-length: (\d+)/i, 1].to_i
      [socket, socket.read(length).to_i]
    end
  end
end
