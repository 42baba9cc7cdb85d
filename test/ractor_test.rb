# frozen_string_literal: true

# Gyre on a Ruby without Ractors, as JRuby is: the class is removed before Gyre is loaded.

require "test_helper"

class RactorTest < Minitest::Test
  PROGRAM = <<~RUBY
    Object.__send__(:remove_const, :Ractor)
    require "gyre"
    require "gyre/cli"
    Gyre.run { puts Gyre::Offload.call { Thread.current.name } }
    puts Gyre::Loop.explain
    puts Gyre::Ractor.current.equal?(Gyre::Ractor.main)
    Gyre::CLI.start(["--version"])
  RUBY

  def test_the_loop_the_scheduler_and_the_command_work_where_ruby_has_no_ractors
    run = ruby("-w", "-e", PROGRAM, env: { "GYRE_BACKEND" => "select" })
    assert_match(/\Agyre offload\nbackend: select .*^true\ngyre #{Gyre::VERSION}$/m, run.out)
    assert_empty run.err
  end
end
