# frozen_string_literal: true

# The command that starts a server anew; that it does is serve_test.rb's.

require "test_helper"
require "gyre/log_command/restart"

class LogCommandRestartTest < Minitest::Test
  def test_the_command_of_a_program_that_is_right
    assert_equal [RbConfig.ruby, EXE, "log", "-p", "1"], Gyre::LogCommand::Restart.new(["-p", "1"], program: EXE).call
  end

  def test_what_is_wrong_otherwise
    assert_match(/\A-p.*--port: must be a port|\A--port: must be a port/, Gyre::LogCommand::Restart.new(["-p", "x"], program: EXE).call)
  end

  def test_a_program_that_has_gone
    assert_match(/nowhere/, Gyre::LogCommand::Restart.new([], program: "/nowhere/gyre").call)
  end
end
