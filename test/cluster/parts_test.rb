# frozen_string_literal: true

# The parts of a cluster that need no process: links, back-off, health, hooks.

require "test_helper"
require "gyre/testing"
require "gyre/cluster/respawn"
require "gyre/cluster/health"
require "gyre/cluster/hooks"
require "gyre/web/config"
require "gyre/cluster/link"
require "gyre/cluster/supervisor"
require "gyre/web/control/metrics"

class ClusterPartsTest < Minitest::Test
  include Gyre::Cluster

  def test_a_link_brings_messages_whole_and_in_order_with_their_descriptors
    with_links do |near, far|
      one, other = UNIXSocket.pair
      near.send({ fork: 1, text: "é" * 10 }, near.socket)
      near.send({ fork: 2 }, other)
      assert_equal({ "fork" => 1, "text" => "é" * 10 }, far.receive)
      far.take_socket.close
      assert_equal({ "fork" => 2 }, far.receive)
      taken = far.take_socket
      other.close
      taken.write("hello")
      assert_equal "hello", one.readpartial(5)
      assert_raises(LinkError) { far.take_socket }
    ensure
      [one, other, taken].compact.each(&:close)
    end
  end

  def test_a_link_keeps_what_came_of_a_message_and_ends_with_the_other_process
    with_links do |near, far|
      near.socket.write(%({"a":1}\n{"b"))
      assert_equal({ "a" => 1 }, far.receive)
      assert_equal %({"b"), far.input
      near.socket.write(":2}\n")
      near.close
      assert_equal({ "b" => 2 }, far.receive)
      assert_nil far.receive
      assert_raises(LinkError) { far.send({ c: 3 }) }
    end
  end

  # As of a worker that dies while the supervisor's program is replaced.
  def test_a_link_to_an_ended_process_carries_nothing_without_an_error
    with_links do |near, far|
      far.close
      Gyre.run { |task| assert_nil task.with_timeout(5) { near.carry(Gyre::Broadcast::Outbox.new) } }
    end
  end

  def test_a_link_refuses_an_invalid_message
    with_links do |near, far|
      ["no json", "5", "null", "[[1,2]]"].each do |line|
        near.socket.write("#{line}\n")
        assert_raises(LinkError, line) { far.receive }
      end
    end
  end

  # Whoever asks for metrics would meet it.
  def test_a_member_refuses_a_snapshot_that_is_none
    member = Member::Worker.new(nil, generation: 1, index: 1)
    crew = Crew.new(nil, nil, Gyre::Web::Metrics)
    [5, [1], { "requests" => "x" }].each { |wrong| assert_raises(LinkError) { crew.report(member, wrong) } }
    assert_nil member.snapshot
  end

  def test_a_reload_reaches_workers_that_boot
    supervisor = Supervisor.new(figures: Gyre::Web::Metrics, count: 2, listeners: [], spawn: nil, log: nil)
    with_links do |near, far|
      Gyre.run do |task|
        supervisor.crew.start(task)
        supervisor.crew.add(Member::Worker.new(near, generation: 1, index: 1))
        supervisor.reload
        assert_equal({ "reload" => true }, task.with_timeout(5) { far.receive })
      end
    end
  end

  def test_workers_of_one_number_have_names_of_their_own_in_snapshots
    supervisor = Supervisor.new(figures: Gyre::Web::Metrics, count: 2, listeners: [], spawn: nil, log: nil)
    phases = %i[leaving leaving serving booting]
    phases.each.with_index(1) do |phase, nth|
      supervisor.crew.members << Member::Worker.new(nil, generation: 1, index: 2, phase: phase).tap { |member| member.report({ "nth" => nth }) }
    end
    nths = supervisor.crew.snapshots.transform_values { |each| each["nth"] }
    assert_equal({ "2 (leaving)" => 1, "2 (leaving, 2)" => 2, "2" => 3, "2 (2)" => 4 }, nths)
  end

  def test_a_workers_figures_grow_older_until_it_reports_again
    worker = Member::Worker.new(nil, generation: 1, index: 1)
    assert_nil worker.snapshot
    Gyre::Testing.run do
      worker.report({ "requests" => 1, "report_age_s" => 0.0 })
      sleep 2.5
      assert_equal({ "requests" => 1, "report_age_s" => 2.5 }, worker.snapshot)
      worker.report({ "requests" => 2 })
      assert_equal 0.0, worker.snapshot["report_age_s"]
    end
  end

  # Else the sums would fall until each worker has reported again.
  def test_the_next_program_has_the_last_figures_of_each_worker
    [[{ "requests" => 7 }, 7], [{ "requests" => "x" }, nil]].each do |snapshot, requests|
      with_links do |near, _|
        former, crew = Array.new(2) { Crew.new(nil, nil, Gyre::Web::Metrics) }
        former.members << Member::Worker.new(near, generation: 1, index: 1, pid: Process.pid).tap { |worker| worker.report(snapshot) }
        crew.restore(JSON.parse(JSON.generate(former.to_h(links: false))))
        assert_equal [requests], (crew.workers.map { |worker| worker.snapshot&.fetch("requests") })
        crew.workers.first.link.close
      end
    end
  end

  def test_a_worker_that_is_removed_counts_while_its_link_closes
    with_links do |near, _far|
      crew = Crew.new(nil, nil, Gyre::Web::Metrics)
      crew.members << (worker = Member::Worker.new(near, generation: 1, index: 1)).tap { |each| each.report({ "requests" => 5 }) }
      counted = nil
      near.define_singleton_method(:close) do
        counted ||= [*crew.snapshots.values, *[crew.ended].compact].sum { |each| each["requests"] }
        super()
      end
      assert crew.remove(worker)
      assert_equal 5, counted
    end
  end

  def test_a_hook_that_raises_has_only_its_own_part_of_the_trace
    hooks = Hooks.new({ after_fork: [-> { raise "no database" }] })
    error = assert_raises(RuntimeError) { hooks.call(:after_fork, 1) }
    assert_equal [__FILE__], error.backtrace.map { |line| line[/\A[^:]+/] }
  end

  def test_a_link_refuses_a_message_without_end
    with_links do |near, far|
      writer = Thread.new { near.socket.write("x" * (18 << 20)) rescue nil }
      assert_raises(LinkError) { far.receive }
      far.close
      writer.join
    end
  end

  def test_a_large_message_waits_for_its_reader
    with_links do |near, far|
      writer = Thread.new { near.send({ text: "x" * 1_000_000 }) }
      assert_equal 1_000_000, far.receive.fetch("text").size
      writer.join
    end
  end

  def test_a_first_death_is_replaced_at_once_and_young_ones_later_and_later
    backoff = Respawn.new
    assert_equal([0, 0.5, 1, 2, 4, 8, 16, 30, 30], Array.new(9) { |now| backoff.died(1, now) })
    refute backoff.over?(30)
    assert backoff.over?(38)
    assert_equal 0, backoff.died(Respawn::SOUND_S, 100)
    backoff.died(1, 100)
    backoff.reset
    assert backoff.over?(100)
  end

  def test_health_is_a_sign_in_time_an_end_in_time_and_bounded_memory
    with_links do |link, _|
      worker = Member::Worker.new(link, generation: 1, index: 1, pid: Process.pid, started_s: 0, heard_s: 0)
      health = Health.new(worker_timeout: 10, worker_boot_timeout: 20, worker_memory_limit: 1 << 40)
      assert_nil health.check(worker, 20)
      assert_equal [:kill, "did not start within 20 s (worker_boot_timeout)"], health.check(worker, 21)
      worker.phase = :serving
      assert_nil health.check(worker, 10)
      assert_equal :ask, health.check(worker, 10.5).first
      assert_equal [:kill, "gave no sign for 10 s"], health.check(worker, 12)
      worker.heard_s = 12
      worker.leave_until_s = 13
      assert_nil health.check(worker, 12)
      assert_equal [:kill, "does not end"], health.check(worker, 14)
    end
  end

  def test_health_of_a_mold_is_that_it_loads_and_forks_in_time
    mold = Member::Mold.new(nil, generation: 1, pid: Process.pid, started_s: 0)
    health = Health.new(worker_boot_timeout: 20, load_timeout: 200)
    assert_nil health.check(mold, 200)
    assert_equal [:kill, "did not load the app within 200 s (load_timeout)"], health.check(mold, 201)
    mold.phase = :ready
    assert_nil health.check(mold, 1000)
    mold.instance_variable_set(:@owes_since_s, 1000)
    assert_nil health.check(mold, 1020)
    assert_equal [:kill, "did not fork a worker within 20 s (worker_boot_timeout)"], health.check(mold, 1021)
    assert_nil health.check(Member::Worker.new(nil, generation: 1, index: 1, started_s: 0), 1021), "its mold is timed"
  end

  def test_hooks_have_other_words_and_run_in_order
    called = []
    config = Gyre::Web::Config.new("gyre.rb")
    config.on_worker_boot { |index| called << [:first, index] }
    config.after_fork { called << :second }
    hooks = Hooks.new(config.evaluate(""))
    hooks.call(:after_fork, 3)
    hooks.call(:before_fork, 3)
    assert_equal [[:first, 3], :second], called
  end

  def test_a_status_of_an_earlier_process_is_not_that_of_a_present_one_with_its_number
    reaper = Reaper.new
    ended = []
    pid = Process.spawn("true")
    eventually { reaper.reap || reaper.instance_variable_get(:@strays).key?(pid) }
    reaper.watch(pid) { |status| ended << status.pid }
    assert_equal [pid], ended
    reaper.instance_variable_get(:@strays)[Process.pid] = :earlier
    reaper.watch(Process.pid) { |status| ended << status }
    assert_equal [pid], ended
  end

  def test_a_program_that_the_user_may_not_execute_is_reported_as_that
    spawn = -> { raise Errno::EACCES, "/opt/own/ruby" }
    supervisor = Supervisor.new(figures: Gyre::Web::Metrics, count: 1, listeners: [], spawn: spawn, log: nil)
    refute supervisor.run
    assert_equal "the process that loads the code cannot be started: Permission denied - /opt/own/ruby. " \
                 "This user may not execute that file, or not enter a folder above it", supervisor.failure
  end

  # The workers of before go on meanwhile.
  def test_a_supervisor_outlives_a_system_that_has_no_process_left
    calls = 0
    errors = []
    supervisor = nil
    log = Object.new
    log.define_singleton_method(:info) { |_| nil }
    log.define_singleton_method(:error) do |text|
      errors << text
      supervisor.stop(now: true) if text.include?("ended with status")
    end
    spawn = lambda do
      raise Errno::EAGAIN if (calls += 1) < 3

      [Link.ended, Process.spawn("true")]
    end
    former = { "generation" => 1, "count" => 1, "current" => nil, "members" => [] }
    supervisor = Supervisor.new(figures: Gyre::Web::Metrics, count: 1, listeners: [], spawn: spawn, log: log, former: former)
    assert supervisor.run
    assert_equal 3, calls
    assert_match(/the process that loads the code cannot be started: Resource temporarily unavailable/, errors.join("\n"))
  end

  private

  def with_links
    links = Link.pair
    yield(*links)
  ensure
    links.each(&:close)
  end
end
