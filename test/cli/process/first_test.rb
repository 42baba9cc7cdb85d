# frozen_string_literal: true

# Process 1 in front of a command: Gyre::CLI::First.

require "test_helper"
require "gyre/cli/process/first"
require "open3"

class CLIFirstTest < Minitest::Test
  PROGRAM = <<~'RUBY'
    require "gyre/cli/process/first"
    $stdout.sync = true
    status = Gyre::CLI::First.run and exit(status)
    trap("TERM") { puts("TERM").then { exit(7) } }
    puts [Process.ppid, system("exit 4"), $?.exitstatus].inspect
    orphan = Integer(`sh -c 'sleep 0.01 >&- & echo $!'`)
    stat = -> { File.read("/proc/#{orphan}/stat") rescue nil }
    sleep 0.005 while stat.call
    puts "reaped"
    Process.kill("TERM", 1)
    sleep
  RUBY

  def test_process_1_reaps_orphans_passes_signals_on_and_ends_as_its_child_does
    unshare = %w[unshare --pid --fork --mount-proc]
    skip "needs unshare(1) and the right to make namespaces" unless system(*unshare, "true", out: File::NULL, err: File::NULL)
    text, status = Open3.capture2e("timeout", "60", *unshare, RbConfig.ruby, "-I#{GyreTest::Helpers::LIB}", "-e", PROGRAM)
    assert_equal "[1, false, 4]\nreaped\nTERM\n", text
    assert_equal 7, status.exitstatus
  end

  def test_other_processes_stay_as_they_are
    assert_nil Gyre::CLI::First.run
  end
end
