# frozen_string_literal: true

# The sampler (ext/gyre/fiber/samples.c) at 2,000 samples a second, while the program collects and
# moves its objects, makes and drops code, forks and executes. GYRE_SAMPLES_S: how long.

require "test_helper"
require "support/with_profiles"
require "gyre"

class FiberSamplesTest < Minitest::Test
  include GyreTest::WithProfiles

  SECONDS = Float(ENV.fetch("GYRE_SAMPLES_S", "0.5"))
  # Code that is dropped while samples hold its frames, on threads, tasks and inner fibers.
  BUSY = <<~'RUBY'
    $VERBOSE = nil # methods are defined again
    END_S = Process.clock_gettime(Process::CLOCK_MONOTONIC) + Float(ENV.fetch("SECONDS"))
    def on? = Process.clock_gettime(Process::CLOCK_MONOTONIC) < END_S
    def evaluate(number) = eval("def made_#{number % 50}(n) = n.zero? ? Array.new(50) { |i| 'x' * i } : made_#{number % 50}(n - 1)\nmade_#{number % 50}(20)")
    def fibers = Enumerator.new { |out| 20.times { |n| out << [n].map { |m| m.to_s } } }.next
    def errors = Class.new { def call = raise("x") }.new.call rescue nil
    def busy
      number = 0
      while on?
        evaluate(number += 1)
        fibers
        errors
        Thread.new { 3.times { evaluate(number) } }.join if (number % 5).zero?
        Gyre::Task.current?&.yield
      end
    end
    def sampled = Gyre::Profile.take(interval_s: 0.0005) { Gyre.run { |task| 2.times { task.async("busy") { busy } } } }
    def check(profile)
      whole = profile.nodes.size > 10 && profile.cpu_s > 0 && Gyre::Profile.from(profile.to_h)
      puts whole ? "whole" : profile.nodes.inspect
    end
  RUBY

  def test_objects_that_are_collected_and_moved_stay_whole_in_samples
    assert_whole(<<~RUBY)
      GC.auto_compact = true if GC.respond_to?(:auto_compact=)
      check(sampled)
      GC.verify_internal_consistency
    RUBY
  end

  def test_a_program_goes_on_although_a_sample_takes_longer_than_its_interval
    assert_whole(<<~RUBY)
      profile = Gyre::Profile.take(interval_s: 0.0005) do
        GC.stress = true
        ["x"].map { |text| [text] } while on?
      ensure
        GC.stress = false
      end
      check(profile)
    RUBY
  end

  def test_a_new_program_in_the_same_process_is_not_sampled
    assert_whole(<<~RUBY)
      if ARGV.empty?
        Thread.new { sampled }
        sleep 0.1
        exec(RbConfig.ruby, "-I#{LIB}", "-rgyre", $0, "again")
      end
      busy
      puts "whole"
    RUBY
  end

  def test_a_child_neither_samples_nor_waits_and_takes_profiles_of_its_own
    assert_whole(<<~RUBY)
      reader, writer = IO.pipe
      profile = Gyre::Profile.take(interval_s: 0.0005) do
        Process.wait(fork { writer << Gyre::Profile.take(interval_s: 0.0005) { Gyre.run { busy } }.nodes.size })
        exit!(1) unless $?.success?
      end
      writer.close
      puts reader.read.to_i > 10 && profile ? "whole" : "lost"
    RUBY
  end

  def test_a_program_may_end_within_a_profile
    assert_whole("Thread.new { Gyre::Profile.take(interval_s: 0.0005) { sleep } }\nbusy\n$stdout.puts 'whole'\n$stdout.flush\n")
  end

  def test_memory_is_bounded
    profile = Gyre::Profile.take(interval_s: 0.0001) do
      600.times { |depth| deep(depth, 0.1) }
      deep(600, 300) # samples come late where the processor is busy
    end
    assert_operator profile.nodes.size, :<=, 1 << 17
    assert_includes profile.frames.map(&:first), "(outer frames)"
  end

  private

  def deep(depth, ms) = depth.zero? ? compute(ms) : deep(depth - 1, ms)

  def compute(milliseconds)
    end_s = now + (milliseconds / 1000.0)
    nil while now < end_s
  end

  def now = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID)

  def assert_whole(code)
    Dir.mktmpdir do |folder|
      File.write("#{folder}/program.rb", BUSY + code)
      output = ruby("-rgyre", "#{folder}/program.rb", env: { "SECONDS" => SECONDS.to_s }, within_s: 60 + (20 * SECONDS))
      assert_equal ["whole\n", "", 0], [output.out, output.err, output.status.exitstatus]
    end
  end
end
