# frozen_string_literal: true

require "test_helper"
require "tmpdir"

# The promise of acknowledged logging: nothing that was acknowledged is lost, and nothing is stored
# twice, whatever is killed and whenever. Each test is a program of its own
# (test/support/log_crash.rb), which kills servers and writers with kill -9 and then counts the
# records in all log files; together at least 200 times. GYRE_SEED repeats a run's draws (not its
# times), GYRE_LOG_KILLS multiplies the kills.
class LogCrashTest < Minitest::Test
  PROGRAM = File.expand_path("../support/log_crash.rb", __dir__)
  KILLS = { "servers" => 55, "rotation" => 35, "renaming" => 25, "writers" => 45, "network" => 25, "handover" => 8, "moves" => 8,
            "disk" => 20 }.freeze

  FACTOR = Float(ENV.fetch("GYRE_LOG_KILLS", "1"))
  SEED = Integer(ENV.fetch("GYRE_SEED") { Random.new_seed & 0xffff_ffff })

  @@killed = 0 # of all tests together, for the last line
  Minitest.after_run { puts "crash test of acknowledged logging: #{@@killed} kills -9, GYRE_SEED=#{SEED}" if @@killed.positive? }

  def self.time_limit_s
    240 * [FACTOR, 1].max
  end

  KILLS.each do |plan, kills|
    define_method("test_kills_of_#{plan}_lose_nothing_and_repeat_nothing") do
      count = (kills * FACTOR).ceil
      Dir.mktmpdir do |folder|
        run = ruby(PROGRAM, plan, count.to_s, SEED.to_s, folder, within_s: 230 * [FACTOR, 1].max)
        assert run.status.success?, "GYRE_SEED=#{SEED}: #{run.out}#{run.err}"
        killed = run.out[/ (\d+) kills/, 1].to_i
        assert_operator killed, :>=, count, run.out
        @@killed += killed
      end
    end
  end

  def test_these_are_200_kills
    assert_operator KILLS.values.sum, :>=, 200
  end
end
