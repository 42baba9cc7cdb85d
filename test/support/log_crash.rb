# frozen_string_literal: true

# The crash test's program: runs one plan and reports whether acknowledged logging lost nothing.
# Started by test/log/crash_test.rb, or by hand: ruby -w -Ilib test/support/log_crash.rb PLAN KILLS
# SEED FOLDER. It loads everything once and forks, so that a kill costs milliseconds. Status 0:
# kept.

require "gyre/log"
require "gyre/log/client"
require "gyre/log/server"
%w[bad_network books mines plan server_process writer world].each { |part| require_relative "log_crash/#{part}" }

if $PROGRAM_NAME == __FILE__
  name, kills, seed, folder = ARGV
  $stdout.sync = true
  world = GyreTest::LogCrash::World.new(GyreTest::LogCrash::PLANS.fetch(name), Integer(seed), folder)
  faults = world.run(Integer(kills))
  $stdout.puts world.summary
  $stdout.puts faults, "", world.said unless faults.empty?
  exit faults.empty?
end
