# frozen_string_literal: true

# Gyre::Testing: time that jumps, orders that a seed repeats, and a real world that goes on beside
# them.

require "test_helper"
require "support/engines"
require "socket"
require "timeout"
require "gyre"
require "support/portable_simulation"

GyreTest::Engines.test_case("TestingTest", backends: GyreTest::Engines::ALL) do
  def simulate(seed: 1, &block)
    Gyre::Testing.run(seed: seed, &block)
  end

  # --- time ---

  def test_an_hour_of_sleeps_takes_no_time
    elapsed_s = nil
    took_s = duration_s do
      simulate do |task|
        Array.new(10) { task.async { 360.times { sleep 10 } } }.each(&:wait)
        elapsed_s = Gyre::Testing.elapsed
      end
    end
    assert_in_delta 3600, elapsed_s, 0.001
    assert_operator took_s, :<, 100
  end

  def test_things_happen_at_their_times
    log = []
    simulate do |task|
      start = Gyre::Testing.now
      { slow: 30, quick: 10, middle: 20 }.each do |name, seconds|
        task.async { sleep(seconds) and log << [name, (Gyre::Testing.now - start).round] }
      end
      task.async { 3.times { sleep(7) and log << [:tick, Gyre::Testing.elapsed.round] } }
    end
    assert_equal [[:tick, 7], [:quick, 10], [:tick, 14], [:middle, 20], [:tick, 21], [:slow, 30]], log
  end

  def test_the_time_stands_still_while_no_task_waits
    simulate do
      before = Gyre::Testing.now
      nil until Process.clock_gettime(Process::CLOCK_MONOTONIC, :millisecond) % 7 == 3
      assert_equal before, Gyre::Testing.now
      sleep 0
      assert_equal before, Gyre::Testing.now
    end
  end

  def test_timeouts_end_waits_in_the_order_of_their_times
    log = []
    simulate do |task|
      assert_raises(Timeout::Error) { Timeout.timeout(60) { sleep 61 } }
      log << Gyre::Testing.elapsed.round
      assert_equal :done, Timeout.timeout(62) { sleep(61) and :done }
      log << Gyre::Testing.elapsed.round
      assert_raises(Gyre::TimeoutError) { task.with_timeout(1000) { Thread::Queue.new.pop } }
      log << Gyre::Testing.elapsed.round
      outer = assert_raises(Timeout::Error) { Timeout.timeout(5) { Timeout.timeout(50) { sleep } } }
      log << Gyre::Testing.elapsed.round << outer.class
    end
    assert_equal [60, 121, 1121, 1126, Timeout::Error], log
  end

  def test_deadlines_queues_and_periods_go_by_the_same_clock
    simulate do |task|
      start = Gyre::Clock.now
      beats = 0
      beating = task.every(60) { beats += 1 }
      assert_nil Gyre::Queue.new.pop(timeout: 601)
      assert_in_delta 601, Gyre::Clock.now - start, 0.001
      assert_equal 10, beats
      beating.stop
    end
  end

  def test_what_is_left_of_a_sleep_is_slept_however_little_it_is
    simulate do
      finish = Gyre::Clock.now + 1e-10
      sleep finish - Gyre::Clock.now while Gyre::Clock.now < finish
      assert_operator Gyre::Testing.elapsed, :<, 0.001
    end
  end

  def test_a_thread_wakes_a_task_that_waits_for_it_alone
    simulate do
      queue = Thread::Queue.new
      thread = Thread.new { sleep(0.02) and queue << :there }
      assert_equal :there, queue.pop
      thread.join
      assert_in_delta 0, Gyre::Testing.elapsed, 0.001
    end
  end

  # --- the order ---

  def order(seed)
    log = []
    simulate(seed: seed) { |task| 5.times { |number| task.async { 4.times { task.yield.then { log << number } } } } }
    log
  end

  def test_the_same_seed_gives_the_same_order_and_others_give_others
    orders = (1..10).map { |seed| order(seed) }
    assert_equal orders, (1..10).map { |seed| order(seed) }
    assert_operator orders.uniq.size, :>=, 9
    orders.each { |log| assert_equal((0..4).to_h { |number| [number, 4] }, log.tally) }
  end

  def test_a_task_that_starts_another_goes_on_before_all_others
    10.times do |seed|
      log = []
      simulate(seed: seed) do |task|
        3.times { task.async { 5.times { task.yield } and log << :other } }
        log << :before
        task.async { log << :begun and task.yield and log << :ended }
        log << :after
      end
      assert_equal %i[before begun after], log.first(3)
    end
  end

  # Two tasks add one to what they have read: a lost update, when the other one writes in between.
  def count_to_two(seed)
    count = 0
    simulate(seed: seed) do |task|
      2.times do
        task.async do
          task.yield
          read = count
          task.yield
          count = read + 1
        end
      end
    end
    count
  end

  def test_a_lost_update_is_found_and_repeated_by_its_seed
    counts = (1..40).to_h { |seed| [seed, count_to_two(seed)] }
    assert_equal [1, 2], counts.values.uniq.sort
    losing, winning = [1, 2].map { |result| counts.key(result) }
    5.times { assert_equal [1, 2], [count_to_two(losing), count_to_two(winning)] }
  end

  def choices(seed)
    simulate(seed: seed) do
      channels = %i[a b].map { |name| Gyre::Channel.new(20).tap { |channel| 20.times { channel.send(name) } } }
      Array.new(20) { Gyre.select { |on| channels.each { |channel| on.receive(channel) } } }
    end
  end

  def test_the_seed_repeats_the_choices_of_select
    assert_equal [choices(7)], Array.new(4) { choices(7) }.uniq
    refute_equal choices(7), choices(8)
  end

  # In the order of the queue it never goes wrong.
  def test_an_order_that_the_queue_never_takes_is_found
    bug = lambda do |run|
      ready = false
      run.call do |task|
        task.async { task.yield.then { ready = true } }
        task.async { 2.times { task.yield }.then { raise "too early" unless ready } }.wait
      end
    end
    5.times { bug.call(Gyre.method(:run)) }
    failing = nil
    shows = ->(seed) { bug.call(->(&block) { simulate(seed: seed, &block) }) && false rescue $!.message == "too early" }
    _, err = capture { failing = (1..100).find(&shows) }
    refute_nil failing
    assert_equal "Gyre::Testing: seed #{failing} (GYRE_SEED=#{failing} repeats this order)\n", err
  end

  # --- the seed ---

  def test_the_seed_is_printed_when_the_block_raises_and_only_then
    _, err = capture do
      simulate(seed: 7) { nil }
      assert_raises(Minitest::Assertion) { simulate(seed: 12_345) { flunk "so it is" } }
      assert_raises(SystemExit) { simulate(seed: 8) { exit } }
    end
    assert_equal "Gyre::Testing: seed 12345 (GYRE_SEED=12345 repeats this order)\n", err
  end

  def test_the_seed_is_printed_with_an_unawaited_failure_and_not_for_a_skip
    _, err = capture { simulate(seed: 4) { |task| task.async { raise "child" } && nil } }
    assert_match(/child.*^Gyre::Testing: seed 4 \(/m, err)
    _, err = capture { assert_raises(Minitest::Skip) { simulate(seed: 3) { raise Minitest::Skip, "skipped" } } }
    assert_equal "", err
  end

  def test_without_a_seed_it_is_a_random_one_or_that_of_the_environment
    take = ->(*) { capture { assert_raises(RuntimeError) { Gyre::Testing.run { raise "x" } } }.last[/seed (\d+)/, 1] }
    assert_operator Array.new(4, &take).uniq.size, :>, 1
    ENV["GYRE_SEED"] = "77"
    assert_equal "77", take.call
    assert_equal order(3), order(3)
    refute_equal order(3), order(4), "a seed in the code counts more"
  ensure
    ENV["GYRE_SEED"] = nil
  end

  # --- the real world ---

  def test_sockets_work_and_their_timeouts_do_not_pass
    simulate do |task|
      server = TCPServer.new("127.0.0.1", 0)
      serving = task.async do
        loop do
          client = server.accept
          task.async { (client.write(client.readpartial(1000).upcase) while true) rescue client.close }
        end
      end
      answers = Array.new(10) do |number|
        task.async do
          TCPSocket.open("127.0.0.1", server.local_address.ip_port) do |socket|
            Array.new(5) { Timeout.timeout(1) { socket.write("n#{number}").then { socket.readpartial(1000) } } }
          end
        end
      end
      assert_equal(Array.new(10) { |number| ["N#{number}"] * 5 }, answers.map(&:wait))
      serving.stop
    ensure
      server.close
    end
  end

  def test_time_is_real_while_others_work
    simulate do |task|
      took_s = duration_s { assert_equal 3, Timeout.timeout(3600) { Process.wait2(spawn("sleep 0.1; exit 3")) }.last.exitstatus }
      assert_operator took_s, :>=, 0.1
      assert_operator Gyre::Testing.elapsed, :<, 60
      assert_equal 5, task.with_timeout(3600) { Gyre::Offload.call { sleep(0.05) and 5 } }
      pid = spawn("sleep 60")
      assert_raises(Gyre::TimeoutError) { task.with_timeout(0.1) { Process.wait(pid) } }
      Process.kill(:KILL, pid)
      Process.wait(pid) rescue Errno::ECHILD # the thread that waited may have come first
      assert_operator Gyre::Testing.elapsed, :<, 60
      assert_operator duration_s { sleep 3600 }, :<, 100, "and virtual again afterwards"
    end
  end

  # --- around it ---

  def test_afterwards_the_time_is_real_again
    simulate { sleep 1000 }
    assert_in_delta monotonic_s, Gyre::Clock.now, 100
    assert_nil Fiber.scheduler
    assert_operator duration_s { Gyre.run { sleep 0.03 } }, :>=, 0.03
    assert_raises(Gyre::Error) { Gyre::Testing.now }
    assert_raises(Gyre::Error) { Gyre::Testing.elapsed }
  end

  def test_it_gives_the_value_stops_what_is_left_and_needs_a_thread_of_its_own
    log = []
    value = simulate do |task|
      task.async(transient: true) do
        loop { sleep 1 }
      ensure
        sleep(0.5).then { log << :cleaned }
      end
      sleep 3
      :value
    end
    assert_equal [:value, [:cleaned]], [value, log]
    error = assert_raises(Gyre::Error) { Gyre.run { Gyre::Testing.run { nil } } }
    assert_match(/needs a thread without a scheduler/, error.message)
  end

  def test_a_forked_child_goes_on_in_the_same_time
    simulate do
      sleep 1000
      pid = fork do
        Gyre.run { sleep 1000 } # from Ruby 4.0 on the child's own fiber is a blocking one
        exit! Gyre::Testing.elapsed.round == 2000 ? 7 : 8
      end
      assert_equal 7, Process.wait2(pid).last.exitstatus
    end
  end

  def test_a_seed_of_any_size
    [-5, 2**70].each { |seed| assert_equal 1, simulate(seed: seed) { 1 } }
  end

  def test_another_thread_has_its_own_time
    simulate do |task|
      sleep 100
      other = Thread.new { [Gyre::Clock.now, Gyre::Testing.run(seed: 2) { sleep(5).then { Gyre::Testing.elapsed.round } }] }
      real, elapsed_s = other.value
      assert_operator real, :<, Gyre::Clock.now - 90
      assert_equal 5, elapsed_s
      task.yield
    end
  end
end

class TestingOnThePortableEngineTest < Minitest::Test
  def test_a_program_is_refused_there
    output = ruby("-e", <<~RUBY, env: { "GYRE_BACKEND" => "select" })
      require "gyre/testing"
      pipes = Array.new(2) do
        Gyre::Testing.run { nil }
      rescue Gyre::ExtensionRequired => error
        puts error.message, Fiber.scheduler.inspect
        IO.pipe.map(&:fileno)
      end
      puts "the second one took \#{pipes.last.min - pipes.first.max - 1} descriptors"
    RUBY
    assert_match(/\A(?:Gyre::Testing needs Gyre's C extension: .*\nnil\n){2}the second one took 0 descriptors\n\z/, output.out, output.err)
  end
end
