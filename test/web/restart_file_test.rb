# frozen_string_literal: true

# When a server restarts because of a file: Gyre::Web::RestartFile.

require "test_helper"
require "tmpdir"
require "gyre"
require "gyre/web/restart_file"

class WebRestartFileTest < Minitest::Test
  def test_a_file_that_is_made_or_touched
    Dir.mktmpdir do |folder|
      path = "#{folder}/restart.txt"
      touched = Gyre::Queue.new
      Gyre.run do
        Gyre::Web::RestartFile.watch(path) { touched.push(true) }
        sleep(0)
        File.write(path, "")
        touched.pop
        File.unlink(path)
        File.write(path, "")
        File.utime(Time.now + 5, Time.now + 5, path)
        touched.pop
        assert_empty touched
      end
    end
  end
end
