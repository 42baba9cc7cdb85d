# frozen_string_literal: true

# The rehearsal of a program that is to replace a server's, and the file of a handover; that a
# program gets it is tested with the servers.

require "test_helper"
require "socket"
require "gyre/cli/process/successor"

class CLISuccessorTest < Minitest::Test
  def test_a_program_that_is_right = assert_nil(rehearse("log", "-p", "0"))

  def test_what_is_wrong_otherwise = assert_match(/\A-p.*--port: must be a port|\A--port: must be a port/, rehearse("log", "-p", "x"))

  def test_what_it_could_not_listen_on_unless_it_inherits_that
    TCPServer.open("127.0.0.1", 0) do |taken|
      address = "tcp://127.0.0.1:#{taken.local_address.ip_port}"
      words = ["log", "-p", taken.local_address.ip_port.to_s]
      assert_match(/\Alisten on #{address}: address already in use/, rehearse(*words))
      assert_nil rehearse(*words, inputs: ["unix:///somewhere", address])
    end
  end

  def test_a_program_that_has_gone = assert_match(/nowhere/, rehearse("log", program: "/nowhere/gyre"))

  def test_a_program_that_does_not_end_is_killed
    successor = Gyre::CLI::Successor.new("gyre log", command: ["sh", "-c", "exec sleep 60"],
                                                     run: ->(*words, **options) { Gyre::CLI::Successor.run(*words, **options, limit_s: 0.1) })
    assert_equal "the new program was ended by SIGKILL (it has 60 s)", successor.rehearse({}, [])
  end

  def test_what_is_handed_over_reaches_no_disk
    skip "no memory file system" unless File.writable?("/dev/shm") && File.exist?("/proc/self/fd")
    where = nil
    run = lambda do |environment, *, **|
      where = File.readlink("/proc/self/fd/#{environment[Gyre::CLI::Handover::VARIABLE].to_i}")
      Process.wait2(spawn("true")).last
    end
    assert_nil Gyre::CLI::Successor.new("gyre", run: run).rehearse({ secret: "a secret" }, [])
    assert_match(%r{\A/dev/shm/}, where)
  end

  # As in a container whose /tmp Ruby refuses; the rehearsal's output is kept in such a file, too.
  def test_no_folder_for_temporary_files_is_needed
    skip "no memory file system" unless File.writable?("/dev/shm") && File.exist?("/proc/self/fd")
    no_folder = -> { raise ArgumentError, "could not find a temporary directory" }
    Dir.stub(:tmpdir, no_folder) { Gyre::CLI::Successor.unnamed.close }
  end

  private

  def rehearse(*words, program: EXE, inputs: [])
    command = Gyre::CLI::Restart.command(words, program: program)
    Gyre::CLI::Successor.new("gyre log", command: command).rehearse({ listeners: inputs.map { |input| { input: input } } }, [])
  end
end
