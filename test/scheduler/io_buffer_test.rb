# frozen_string_literal: true

# Ruby's warning that IO::Buffer is experimental is not for programs that merely read.
require "test_helper"

class SchedulerIOBufferTest < Minitest::Test
  include GyreTest::Helpers

  READ = <<~RUBY
    require "gyre"
    Gyre.run do
      reader, writer = IO.pipe
      writer.write("x")
      $stdout.syswrite(reader.readpartial(1))
    end
  RUBY

  def test_a_program_that_reads_from_a_pipe_prints_no_warning
    run = ruby("-w", "-e", READ)
    assert_equal ["x", ""], [run.out, run.err]
  end

  def test_warnings_of_other_experiments_stay_as_they_were_set
    ["", "-W:no-experimental"].each do |option|
      run = ruby(*option.split, "-e", "before = Warning[:experimental]; require \"gyre\"; p before == Warning[:experimental]")
      assert_equal "true\n", run.out, option
    end
  end
end
