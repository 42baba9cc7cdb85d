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

  # As in a container whose /tmp Ruby refuses; the rehearsal's output is kept in such a file, too.
  def test_no_folder_for_temporary_files_is_needed
    skip "no memory file system" unless File.writable?("/dev/shm") && File.exist?("/proc/self/fd")
    no_folder = -> { raise ArgumentError, "could not find a temporary directory" }
    Dir.stub(:tmpdir, no_folder) { Gyre::CLI::Successor.unnamed.close }
  end
end
