# frozen_string_literal: true

# Gyre.profile, and profiles of several processes. test/profile/ has the files and the sampler.

require "test_helper"
require "support/with_profiles"
require "gyre"
require "support/pprof"

class ProfileTest < Minitest::Test
  include GyreTest::WithProfiles

  KINDS = %w[work_in_ruby work_in_c work_on_strings work_with_garbage].freeze
  NUMBERS = Array.new(2000) { |index| (index * 7919) % 2003 }.freeze
  TEXT = "hello world " * 400

  def test_shares_of_cpu_time_are_those_of_the_work
    truth = Hash.new(0.0)
    profile = Gyre::Profile.take(interval_s: 0.002) do
      Gyre.run do |task|
        KINDS.each { |kind| task.async(kind) { work(kind, truth) } }
      end
    end
    found = shares(profile)
    truth.each { |kind, seconds| assert_in_delta seconds / truth.values.sum, found[kind].fdiv(found.values.sum), 0.25, kind }
    assert_in_delta truth.values.sum, profile.cpu_s, truth.values.sum * 0.3
  end

  def test_without_a_block_other_tasks_run
    Gyre.run do |task|
      rounds = 0
      task.async("counts", transient: true) { task.yield while rounds += 1 }
      profile = Gyre.profile(0.05)
      assert_operator profile.seconds, :>=, 0.05
      assert_operator rounds, :>, 1
    end
  end

  def test_other_threads_are_seen
    cpu_s = 0
    done = false
    profile = Gyre.profile do
      thread = Thread.new do
        until done
          work_on_strings
          cpu_s = now(Process::CLOCK_THREAD_CPUTIME_ID)
        end
      end
      sleep 0.001 until cpu_s > 0.2
      done = true
      thread.join
    end
    assert_match(/work_on_strings/, profile.frames.map(&:first).join("\n"))
  end

  # Ruby gives the sample to the thread that runs at that moment.
  def test_a_thread_that_goes_to_sleep_takes_no_sample_with_it
    sleepers = Array.new(200) { |index| Thread.new { sleep(0.0015 * index) and work_in_ruby and sleep } }
    began_s = now(Process::CLOCK_THREAD_CPUTIME_ID)
    profile = Gyre::Profile.take(interval_s: 0.002) { work_on_strings until now(Process::CLOCK_THREAD_CPUTIME_ID) > began_s + 0.6 }
    assert_operator profile.cpu_s, :>, 0.45
  ensure
    sleepers&.each { |thread| thread.kill.join }
  end

  def test_sums_by_route_or_task_are_those_of_the_loop
    Gyre.run do |task|
      task.async("little") { 30.times { work_on_strings and sleep 0.001 } }
      task.async("much") { 30.times { work_with_garbage and work_in_c and sleep 0.001 } }
      before = Gyre::Loop.usage
      profile = Gyre.profile { task.children.each(&:wait) }
      after = Gyre::Loop.usage
      sums = profile.enum_for(:each_stack).each_with_object(Hash.new(0)) { |(label, _, _, ns), all| all[label] += ns / 1e9 }
      %w[little much].each { |label| assert_in_delta after[label][:cpu_s] - before.dig(label, :cpu_s).to_f, sums[label], 0.001 }
      assert_empty sums.keys - after.keys
    end
  end

  def test_samples_are_scaled_and_labels_without_a_row_are_others
    frames = [[nil, nil, nil], ["/a", nil, nil], ["work", "a.rb", 1], ["/12345", nil, nil]]
    nodes = [[0, 0, 0, 0], [0, 1, 0, 0], [1, 2, 3, 300], [0, 3, 0, 0], [3, 2, 1, 100], [0, 0, 0, 0], [5, 2, 1, 50]]
    spent = { "/a" => 600, "/b" => 7, "(threads)" => 50, "(other)" => 10, "(loop)" => 0 }
    Gyre::Profile.__send__(:scale, frames, nodes, spent)
    found = Gyre::Profile.new(1, frames, nodes).enum_for(:each_stack).map { |label, stack, _, ns| [label, frames[stack.last].first, ns] }
    assert_equal [["/a", "work", 600], ["(other)", "work", 10], ["(threads)", "work", 50]], found.first(3)
    assert_equal [["/b", 7]], found.drop(3).map { |label, _, ns| [label, ns] }
  end

  def test_a_block_is_sampled_for_the_seconds_at_most
    cpu_s = now(Process::CLOCK_PROCESS_CPUTIME_ID)
    profile = Gyre.profile(0.05) { work_in_ruby until now(Process::CLOCK_PROCESS_CPUTIME_ID) > cpu_s + 0.3 }
    assert_in_delta 0.05, profile.seconds
    assert_operator profile.cpu_s, :<, 0.2
  end

  def test_collections_have_a_frame
    profile = Gyre.profile { 20.times { GC.start } }
    assert_includes profile.frames.map(&:first), "(garbage collection)"
  end

  def test_only_one_is_taken_at_a_time_and_an_exception_ends_it
    Gyre.profile do
      error = assert_raises(Gyre::Error) { Gyre.profile(1) }
      assert_equal "another profile of this process is being taken", error.message
    end
    assert_raises(EncodingError) { Gyre.profile { raise EncodingError } }
    catch(:out) { Gyre.profile { throw :out } }
    assert_kind_of Gyre::Profile, Gyre.profile { nil }
  end

  def test_neither_a_time_nor_a_block_is_a_mistake
    assert_raises(ArgumentError) { Gyre.profile }
    assert_raises(ArgumentError) { Gyre.profile("1 s") { nil } }
  end

  def test_another_ractor_is_refused
    run = ruby("-W:no-experimental", "-rgyre", "-e", <<~RUBY)
      Gyre::Profile.check
      ractor = Ractor.new do
        Gyre::Profile.take { nil }
      rescue Gyre::Error => error
        error.message
      end
      puts ractor.respond_to?(:value) ? ractor.value : ractor.take
    RUBY
    assert_equal ["a profile is taken in the main Ractor\n", ""], [run.out, run.err]
  end

  def test_profiles_of_processes_become_one
    one, two = Array.new(2) { Gyre.profile { 20.times { work_in_ruby } } }
    read = Gyre::Profile.from(JSON.parse(JSON.generate(two.to_h)))
    merged = Gyre::Profile.merge([one, read, read])
    assert_in_delta one.cpu_s + (2 * two.cpu_s), merged.cpu_s, 1e-6
    assert_equal merged.frames, merged.frames.uniq
    assert_in_delta [one, two].map(&:seconds).max, merged.seconds, 0.001
  end

  def test_another_process_sends_only_profiles
    [{}, { "seconds" => 1 }, { "seconds" => "1", "frames" => [], "nodes" => [] },
     { "seconds" => 1, "frames" => [["a", nil, nil]], "nodes" => [[0, 1, 0, 0]] }, { "seconds" => 1, "frames" => [["a"]], "nodes" => [] },
     { "seconds" => 1, "frames" => [["a", nil, nil]], "nodes" => [[0, 0, 0, 0], [2, 0, 1, 1]] },
     { "seconds" => 1, "frames" => [["a", nil, nil]], "nodes" => [[0, 0, 0, 0], [1, 0, 1, 1]] }, nil,
     { "seconds" => 1, "frames" => [["a", nil, nil]], "nodes" => [[0, 0, -1, 0]] }].each do |hash|
      assert_raises(ArgumentError, hash.inspect) { Gyre::Profile.from(hash) }
    end
  end

  private

  def now(clock) = Process.clock_gettime(clock)

  def work(kind, truth)
    while truth.values.sum < 0.6
      began_s = now(Process::CLOCK_THREAD_CPUTIME_ID)
      __send__(kind)
      truth[kind] += now(Process::CLOCK_THREAD_CPUTIME_ID) - began_s
      Gyre::Task.current.yield
    end
  end

  def shares(profile)
    profile.enum_for(:each_stack).each_with_object(Hash.new(0)) do |(_, frames, _, ns), sums|
      names = frames.map { |frame| profile.frames[frame].first }
      kind = KINDS.find { |each| names.any? { |name| name.to_s.end_with?(each) } }
      sums[kind] += ns if kind
    end
  end

  def work_in_ruby
    number = 0
    number += 1 while number < 20_000
  end

  def work_in_c = 5.times { NUMBERS.sort_by(&:-@) }

  def work_on_strings = TEXT.gsub("o") { "0" }

  def work_with_garbage = Array.new(4000) { |index| "x#{index}" }
end
