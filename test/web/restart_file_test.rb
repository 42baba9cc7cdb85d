# frozen_string_literal: true

# When a server restarts because of a file: Gyre::Web::RestartFile.

require "test_helper"
require "tmpdir"
require "gyre/web/restart_file"

class WebRestartFileTest < Minitest::Test
  def test_a_file_that_is_made_touched_or_gone
    Dir.mktmpdir do |folder|
      path = "#{folder}/restart.txt"
      file = Gyre::Web::RestartFile.new(path)
      refute_predicate file, :touched?
      File.write(path, "")
      assert_predicate file, :touched?
      file.wait
      file = Gyre::Web::RestartFile.new(path)
      refute_predicate file, :touched?
      File.utime(Time.now + 5, Time.now + 5, path)
      assert_predicate file, :touched?
      File.unlink(path)
      refute_predicate file, :touched?
    end
  end
end
