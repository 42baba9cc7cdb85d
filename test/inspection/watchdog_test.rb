# frozen_string_literal: true

# The watchdog's reports, from threads: each hold lasts until it was reported.

require "test_helper"
require "support/engines"
require "gyre"

GyreTest::Engines.test_case("WatchdogTest") do
  # An output that other threads can wait on without giving their lock away.
  def output
    @output ||= Class.new do
      attr_reader :lines

      def initialize
        @lines = []
      end

      def puts(text)
        @lines.concat(text.lines(chomp: true))
      end
    end.new
  end

  # Holds the loop until the report has come.
  def compute_until(pattern, within_s: 60)
    deadline = monotonic_s + within_s
    nil until output.lines.any? { |line| line.match?(pattern) } || monotonic_s > deadline
    assert(output.lines.any? { |line| line.match?(pattern) }, "no report within #{within_s} s: #{output.lines}")
  end

  def watched(limit_s: 0.01, &block)
    Gyre.run do |task|
      watchdog = Gyre::Watchdog.start(limit_s: limit_s, out: output)
      block.call(task, watchdog)
    ensure
      watchdog&.stop
    end
  end

  def test_it_reports_a_computation_while_it_runs_and_at_its_end
    place = nil
    watched do |task|
      task.async("resize") { compute_until(/has held the loop/) && (place = __LINE__) }.wait
      sleep 0.001 until output.lines.any? { |line| line.match?(/goes on after/) }
    end
    first, *frames = output.lines
    assert_match(/\Agyre watchdog: task "resize" has held the loop of thread main for \d+\.\d\d s, computing\z/, first)
    assert(frames.any? { |frame| frame.match?(/\A    \S*watchdog_test\.rb:#{place}:in /) }, output.lines.join("\n"))
    assert_empty output.lines.grep(%r{lib/gyre/})
    assert_match(/\Agyre watchdog: the loop of thread main goes on after \d+\.\d\d s\z/, frames.grep(/goes on/).first)
  end

  def test_it_reports_a_call_that_stops_the_thread
    reader, writer = IO.pipe
    thread = nil
    watched do
      thread = Thread.new do
        sleep 0.001 until output.lines.any?
        writer.write("x")
      end
      Fiber.new(blocking: true) { reader.read(1) }.resume
    end
    thread.join
    kind = Gyre::Scheduler.respond_to?(:blocking?) ? "a blocking fiber, which stops all tasks: make" : "a call that stops its thread"
    assert_match(/has held the loop of thread main for .*, waiting in #{kind}/, output.lines.first)
  ensure
    [reader, writer].each(&:close)
  end

  def test_a_wait_for_a_ractor_is_named_with_the_way_out
    experimental, Warning[:experimental] = Warning[:experimental], false
    watched do
      ractor = Ractor.new { Ractor.receive }
      thread = Thread.new do
        sleep 0.001 until output.lines.any?
        ractor.send(1)
      end
      ractor.respond_to?(:value) ? ractor.value : ractor.take
      thread.join
    end
    assert_match(/, waiting for a Ractor, which stops all tasks: wait in Gyre\.blocking/, output.lines.first)
  ensure
    Warning[:experimental] = experimental
  end

  def test_it_reports_again_after_twice_the_time_and_at_the_end_also_if_the_loop_ends_with_it
    watched { |task| task.async("long") { 3.times { output.lines.clear && compute_until(/has held/) } }.wait }
    assert_match(/\Agyre watchdog: the loop of thread main goes on after/, output.lines.last)
  end

  def test_a_loop_that_sleeps_is_not_held
    watched(limit_s: 0.001) do |task, _|
      waits = -> { task.scheduler.stats[:waits] }
      before = waits.call
      sleep 0.1
      assert_operator waits.call, :>, before
      assert_empty output.lines.grep(/kernel_sleep|in .sleep/)
    end
  end

  def test_a_circle_is_named_once_while_others_go_on
    watched do |task|
      two = nil
      one = task.async("one") { task.yield && nil || two.wait }
      two = task.async("two") { one.wait }
      deadline = monotonic_s + 60
      sleep 0.01 until output.lines.any? { |line| line.include?("deadlock") } || monotonic_s > deadline
      assert_raises(Gyre::Error) { Gyre::Watchdog.start } # one is enough
      task.scheduler.refuse_deadlock(false)
      one.stop
    end
    circle = output.lines.drop_while { |line| !line.include?("deadlock") }
    assert_equal "gyre watchdog: a deadlock: each of these waits for the next", circle.first
    assert_equal 1, output.lines.grep(/a deadlock/).size
    assert(circle.any? { |line| line.start_with?(%(    task "one" is waiting for task "two" at)) })
    assert(circle.any? { |line| line.start_with?(%(    task "two" is waiting for task "one" at)) })
  end

  def test_it_goes_on_in_a_forked_child
    reader, writer = IO.pipe
    watched do
      pid = fork do
        output.lines.clear
        compute_until(/has held/)
        writer.puts output.lines.first
        exit!(0)
      end
      Process.wait(pid)
      writer.close
      assert_match(/has held the loop of thread main/, reader.read)
    end
  ensure
    [reader, writer].each(&:close)
  end

  def test_it_goes_on_in_the_daemon_that_the_process_becomes
    reader, writer = IO.pipe
    code = <<~RUBY
      require "gyre"
      require "stringio"
      said = StringIO.new
      Gyre.run do
        watchdog = Gyre::Watchdog.start(limit_s: 0.02, out: said)
        Process.daemon
        late = Gyre::Clock.now + 60
        nil until said.string.include?("has held") || Gyre::Clock.now > late
        watchdog.stop
      end
      IO.for_fd(#{writer.fileno}).write(said.string)
    RUBY
    pid = Process.spawn({ "GYRE_BACKEND" => backend }, RbConfig.ruby, "-w", "-I#{GyreTest::Helpers::LIB}", "-e", code, writer => writer)
    writer.close
    assert_predicate Process.wait2(pid).last, :success?
    assert_match(/has held the loop of thread main/, reader.read)
  ensure
    [reader, writer].each(&:close)
  end

  def test_its_thread_ends_with_the_loop
    threads = Thread.list
    watchdog = nil
    Gyre.run do
      watchdog = Gyre::Watchdog.start(limit_s: 0.01, out: output)
      assert_equal ["gyre watchdog"], (Thread.list - threads).map(&:name)
    end
    eventually { (Thread.list - threads).empty? }
    watchdog.stop
  end

  def test_run_starts_one_when_it_is_asked_to
    _, err = capture do
      Gyre.run(watchdog: 0.01) { |task| task.async("inner") { hold_until_reported }.wait }
      Gyre.run { |task| assert_nil task.scheduler.watchdog }
      Gyre.run do |task|
        Gyre.run(watchdog: true) { assert task.scheduler.watchdog }
        assert_nil task.scheduler.watchdog
      end
    end
    assert_match(/gyre watchdog: task "inner" has held the loop/, err)
  end

  def test_the_environment_asks_for_one_too
    program = <<~RUBY
      require "gyre"
      Gyre.run("env") { |task| print task.scheduler.watchdog ? "watched" : "not watched" }
    RUBY
    assert_equal "watched", ruby("-e", program, env: { "GYRE_WATCHDOG_MS" => "50" }).out
    assert_equal "not watched", ruby("-e", program).out
    %w[soon 0].each do |text|
      said = ruby("-e", program, env: { "GYRE_WATCHDOG_MS" => text }).err
      assert_match(/GYRE_WATCHDOG_MS must be a positive number of milliseconds, not "#{text}"/, said)
    end
  end

  def test_mistakes_are_reported
    assert_raises(ArgumentError) { Gyre::Watchdog.start(limit_s: 0) }
    assert_match(/needs a Gyre::Scheduler/, assert_raises(Gyre::Error) { Gyre::Watchdog.start }.message)
  end

  private

  # Where the report goes to $stderr, which `capture` has replaced.
  def hold_until_reported
    deadline = monotonic_s + 60
    nil until $stderr.string.include?("has held") || monotonic_s > deadline
  end
end
