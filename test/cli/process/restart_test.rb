# frozen_string_literal: true

# The command that restarts a server; that it does is serve_test.rb's.

require "test_helper"
require "gyre/cli/process/restart"

class CLIRestartTest < Minitest::Test
  def test_the_command_of_a_program
    assert_equal [RbConfig.ruby, EXE, "log", "-p", "0"], Gyre::CLI::Restart.command(["log", "-p", "0"], program: EXE)
  end

  def test_a_restart_begins_with_the_environment_of_the_start
    path, home = ENV.values_at("PATH", "HOME")
    assert_empty Gyre::CLI::Restart.environment.slice("PATH", "HOME", "RESTART_TEST")
    ENV.update("RESTART_TEST" => "set since", "PATH" => "changed since", "HOME" => "the user's", "GYRE_TEST" => "a handover's")
    assert_equal({ "RESTART_TEST" => nil, "PATH" => path }, Gyre::CLI::Restart.environment.slice("RESTART_TEST", "PATH", "HOME", "GYRE_TEST"))
  ensure
    ENV.update("PATH" => path, "HOME" => home, "RESTART_TEST" => nil, "GYRE_TEST" => nil)
  end
end
