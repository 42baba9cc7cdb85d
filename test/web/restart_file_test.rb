# frozen_string_literal: true

# When a server restarts because of a file: Gyre::Web::RestartFile.

require "test_helper"
require "tmpdir"
require "gyre/web/restart_file"

class WebRestartFileTest < Minitest::Test
  def test_a_file_that_is_made_or_touched
    Dir.mktmpdir do |folder|
      path = "#{folder}/restart.txt"
      waiting(path) { File.write(path, "") }
      waiting(path) do
        File.unlink(path)
        File.write(path, "")
        File.utime(Time.now + 5, Time.now + 5, path)
      end
    end
  end

  private

  def waiting(path)
    thread = Thread.new { Gyre::Web::RestartFile.wait(path) }
    eventually { thread.stop? }
    assert_predicate thread, :alive?
    yield
    assert thread.join(60)
  end
end
