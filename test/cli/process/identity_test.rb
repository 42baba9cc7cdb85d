# frozen_string_literal: true

# The pidfile that a server has with its user: Gyre::CLI::Identity. privileges_test.rb and
# pidfile_test.rb have the parts.

require "test_helper"
require "tmpdir"
require "gyre/cli/process/identity"

class CLIIdentityTest < Minitest::Test
  Identity = Gyre::CLI::Identity

  def test_a_pidfile_is_there_from_assume_to_leave
    Dir.mktmpdir do |folder|
      path = "#{folder}/server.pid"
      identity = Identity.new(nil, nil, path)
      refute_path_exists path
      2.times { identity.assume }
      assert_equal "#{Process.pid}\n", File.read(path)
      assert_equal path, identity.pidfile_path
      identity.leave
      refute_path_exists path
    end
  end

  def test_a_pidfile_of_a_living_process_is_refused_before_anything_is_opened
    Dir.mktmpdir do |folder|
      File.write("#{folder}/server.pid", "#{Process.ppid}\n")
      assert_raises(Gyre::StartError) { Identity.new(nil, nil, "#{folder}/server.pid") }
    end
  end

  def test_without_user_and_pidfile_it_does_nothing
    identity = Identity.new(nil, nil, nil)
    refute_predicate identity, :wanted?
    assert_equal [:made, :opened], [identity.making("a") { :made }, identity.opening("a") { :opened }]
    identity.assume
    identity.leave
  end
end
