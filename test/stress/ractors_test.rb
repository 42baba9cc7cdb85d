# frozen_string_literal: true

# Schedulers, tasks and an HTTP server in Ractors, each in a program of its own: a Ractor is for
# ever, and prints a warning that it is experimental. What Ruby itself gets wrong with several
# Ractors is not asked for: Ruby 3.4 loses wake-ups of plain threads in Ractors and hangs when one
# of them requires a file; 3.1 and 3.4 crash when two make a fiber at the same time, which the
# native engine prevents for its own fibers and nothing prevents on the portable one.
require "test_helper"
require "support/engines"
require "support/stress"
require "gyre"
require "gyre/http"
require "net/http"

# What each Ractor runs; all of them give the same.
WORK_OF_A_RACTOR = <<~RUBY
  class Ractor
    alias value take unless method_defined?(:value) # Ruby 4.0 renamed it
  end
  require "gyre"
  require "socket"
  require "timeout"

  module Work
    ROUNDS = 100

    def self.on_a_scheduler(backend)
      Fiber.set_scheduler(scheduler = Gyre::Scheduler.new(backend))
      results = [0, 0, 0]
      hand_over(results)
      answer(*UNIXSocket.pair, results)
      Fiber.schedule { 10.times { begin; Timeout.timeout(0.001) { sleep }; rescue Timeout::Error; results[2] += 1; end } }
      Fiber.schedule { results << system("exit 3") }
      scheduler.run
      Fiber.set_scheduler(nil)
      results
    end

    def self.hand_over(results)
      queue = Thread::Queue.new
      3.times { Fiber.schedule { results[0] += 1 while queue.pop } }
      Fiber.schedule { ROUNDS.times { |n| queue.push(n).then { sleep(0.0001) if n % 10 == 0 } }.then { queue.close } }
    end

    def self.answer(ours, theirs, results)
      Fiber.schedule { ROUNDS.times { |n| ours.write("\#{n}\\n") and (results[1] += 1 if ours.gets == "\#{n}!\\n") }.then { ours.close } }
      Fiber.schedule { while (line = theirs.gets) do theirs.write(line.chomp, "!\\n") end }
    end

    def self.tasks
      Gyre.run { |task| 20.times.map { |n| task.async { task.with_timeout(60) { sleep(0.0001 * n).then { n } } } }.sum(&:wait) }
    end
  end
RUBY

GyreTest::Engines.test_case("RactorsTest", backends: GyreTest::Engines::ALL) do
  include GyreTest::Stress

  def test_a_scheduler_works_in_a_ractor
    assert_equal "[100, 100, 10, false]\n190\n", run_ractors(<<~RUBY)
      p Ractor.new { Work.on_a_scheduler(ENV["GYRE_BACKEND"]) }.value
      p Ractor.new { Work.tasks }.value
    RUBY
  end

  def test_schedulers_in_several_ractors_work_at_once
    skip "portable engine: Ruby crashes when two Ractors make a fiber at the same time" if backend == "select"
    assert_equal "[[[100, 100, 10, false], 190]]\n", run_ractors(<<~RUBY)
      ractors = Array.new(4) { Ractor.new { Array.new(3) { [Work.on_a_scheduler(ENV["GYRE_BACKEND"]), Work.tasks] }.uniq } }
      p ractors.flat_map(&:value).uniq
    RUBY
  end

  def test_the_first_loops_of_several_ractors_start_at_once
    skip "portable engine: Ruby crashes when two Ractors make a fiber at the same time" if backend == "select"
    assert_equal "[0]\n", run_ractors(<<~RUBY)
      p Array.new(20) { Process.wait2(fork { Array.new(6) { Ractor.new { Gyre.run { 1 } } }.each(&:value).then { exit!(0) } }).last.exitstatus }.uniq
    RUBY
  end

  def test_names_are_resolved_in_a_ractor
    skip "Ruby 3.4 and this library's threads in Ractors: it loses their wake-ups" if RUBY_VERSION >= "3.3"
    assert_equal "true\n", run_ractors(<<~RUBY)
      p Ractor.new { Gyre.run { !Fiber.scheduler.address_resolve("localhost").empty? } }.value
    RUBY
  end

  def test_a_server_in_a_ractor_opens_event_streams
    skip "a server needs the native engine" if backend == "select"
    skip "before Ruby 4.0, a Ractor that requires a file may hang" if RUBY_VERSION < "4"
    assert_equal "[200, true]\n", run_ractors(<<~'RUBY')
      require "gyre/http"
      require "gyre/sse"
      module App
        def self.call(env) = Gyre::SSE.open(env) { |events| events.write("hello") }
      end
      listener = TCPServer.new("127.0.0.1", 0)
      Ractor.new(listener.fileno) do |descriptor|
        Gyre.run do
          Gyre::HTTP::Server.new(App, listeners: [Socket.for_fd(descriptor).tap { |socket| socket.autoclose = false }]).start
          sleep
        end
      end
      client = TCPSocket.new("127.0.0.1", listener.addr[1])
      client.write("GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
      response = client.read
      p [response[/ (\d+) /, 1].to_i, response.include?("data: hello\n\n")]
      $stdout.flush
      exit!
    RUBY
  end

  def test_a_collection_finds_what_every_ractors_loop_holds
    skip "portable engine: Ruby crashes when two Ractors make a fiber at the same time" if backend == "select"
    assert_equal "[190]\n", run_ractors(<<~RUBY)
      ractors = Array.new(2) { Ractor.new { Array.new(10) { Work.tasks.tap { GC.start } }.uniq } }
      p ractors.flat_map(&:value).uniq
    RUBY
  end

  private

  def run_ractors(code)
    output = ruby("-W:no-experimental", "-e", WORK_OF_A_RACTOR + code, env: { "GYRE_BACKEND" => backend })
    assert_equal "", output.err
    output.out
  end
end
