# frozen_string_literal: true

# The file of a handover; that a program gets it is tested with the servers.

require "test_helper"
require "gyre/cli/process/successor"

class CLISuccessorTest < Minitest::Test
  def test_what_is_handed_over_reaches_no_disk
    skip "no memory file system" unless File.writable?("/dev/shm") && File.exist?("/proc/self/fd")
    Gyre::CLI::Successor.lend("a secret", []) do |_environment, descriptors|
      assert_match(%r{\A/dev/shm/}, File.readlink("/proc/self/fd/#{descriptors.keys.first}"))
    end
  end
end
