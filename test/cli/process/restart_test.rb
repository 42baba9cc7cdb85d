# frozen_string_literal: true

# The command that restarts a server; that it does is serve_test.rb's.

require "test_helper"
require "socket"
require "gyre/cli/process/restart"

class CLIRestartTest < Minitest::Test
  def test_the_command_of_a_program_that_is_right
    assert_equal [RbConfig.ruby, EXE, "log", "-p", "0"], Gyre::CLI::Restart.new(["log", "-p", "0"], program: EXE).call([])
  end

  def test_what_is_wrong_otherwise
    assert_match(/\A-p.*--port: must be a port|\A--port: must be a port/, Gyre::CLI::Restart.new(["log", "-p", "x"], program: EXE).call([]))
  end

  def test_what_it_could_not_listen_on_unless_it_inherits_that
    TCPServer.open("127.0.0.1", 0) do |taken|
      restart = Gyre::CLI::Restart.new(["log", "-p", taken.local_address.ip_port.to_s], program: EXE)
      address = "tcp://127.0.0.1:#{taken.local_address.ip_port}"
      assert_match(/\Alisten on #{address}: address already in use/, restart.call([]))
      assert_kind_of Array, restart.call(["unix:///somewhere", address])
    end
  end

  def test_a_program_that_has_gone
    assert_match(/nowhere/, Gyre::CLI::Restart.new(["log"], program: "/nowhere/gyre").call([]))
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
