# frozen_string_literal: true

# --user and --group: what a server becomes, and what stays usable. As root only.

require "fileutils"
require "pathname"
require "test_helper"
require "support/processes"
require "gyre/cli/process/privileges"
require_relative "../../web/serving"

class CLIPrivilegesTest < Minitest::Test
  include GyreTest::Serving

  APP = <<~'RUBY'
    loaded = [Process.euid, Process.egid, Process.groups]
    run ->(_env) { [200, {}, [[loaded, [Process.uid, Process.euid, Process.gid, Process.egid, Process.groups]].inspect]] }
  RUBY

  def test_unknown_names_are_refused
    assert_equal "there is no user absent-name", assert_raises(Gyre::StartError) { Gyre::CLI::Privileges.new("absent-name", nil) }.message
    assert_equal "there is no group absent-name", assert_raises(Gyre::StartError) { Gyre::CLI::Privileges.new(nil, "absent-name") }.message
  end

  def test_nothing_is_changed_without_names_or_with_those_of_the_process
    refute_predicate Gyre::CLI::Privileges.new(nil, nil), :wanted?
    refute_predicate Gyre::CLI::Privileges.new(Process.euid.to_s, Process.egid.to_s), :wanted?
  end

  def test_a_server_with_workers_binds_as_root_and_loads_the_app_as_another_user = check_binds_as_root("-w", "1")

  def test_a_server_with_one_process_binds_as_root_and_loads_the_app_as_another_user = check_binds_as_root("-w", "0")

  def check_binds_as_root(*flags)
    as_root do |nobody|
      serve(*flags, "--user", "nobody", "-b", "unix://app.sock", "--pidfile", "app.pid", app: APP,
                                                                                          port: false, mode: 0o755) do |program|
        socket = File.join(program.folder, "app.sock")
        ids = [nobody.uid, nobody.uid, nobody.gid, nobody.gid, [nobody.gid]]
        loaded = [nobody.uid, nobody.gid, [nobody.gid]]
        assert_equal [loaded, ids].inspect, program.get("/", socket: UNIXSocket.new(socket))[/\r\n\r\n(.*)/m, 1]
        assert_equal [nobody.uid] * 2, [File.stat(socket).uid, File.stat(File.join(program.folder, "app.pid")).uid]
        [program.pid, *GyreTest::Processes.children_of(program.pid)].each { |pid| assert_equal [nobody.uid.to_s] * 4, ids_of(pid) }
        restart(program) if flags.include?("1")
        program.signal(:TERM)
        assert_equal 0, program.status.exitstatus
        assert_equal "", File.read(File.join(program.folder, "app.pid")) # it may not remove files there
      end
    end
  end

  def test_root_makes_nothing_where_another_user_may_change_the_path
    as_root_in_a_folder do |folder, nobody, privileges|
      FileUtils.mkdir_p(%w[roots users shared].map { |name| "#{folder}/#{name}" })
      File.chown(nobody.uid, nobody.gid, "#{folder}/users")
      File.chmod(0o1777, "#{folder}/shared")
      File.symlink("roots", "#{folder}/link_of_root")
      File.symlink("../roots", "#{folder}/users/link")
      { "roots" => "root", "link_of_root/../roots" => "root", "users" => "nobody", "shared" => "nobody" }.each do |name, maker|
        path = "#{folder}/#{name}/made"
        by = privileges.making(path) { File.write(path, "") && Process.euid }
        assert_equal [Etc.getpwnam(maker).uid, nobody.uid], [by, File.stat(path).uid], name
        assert_equal 0, Process.euid
      end
      groups = Process.groups
      path = "#{folder}/users/link/link_made"
      error = assert_raises(Gyre::StartError) { privileges.making(path) { File.write(path, "") } }
      assert_match(/user nobody may not make it there, and root makes nothing in a folder that others can change/, error.message)
      refute_path_exists path
      assert_equal [0, 0, groups], [Process.euid, Process.egid, Process.groups]
    end
  end

  private

  def as_root_in_a_folder
    skip "only root can become another user" unless Process.euid.zero?
    Dir.mktmpdir do |folder|
      File.chmod(0o755, folder)
      yield folder, Etc.getpwnam("nobody"), Gyre::CLI::Privileges.new("nobody", nil)
    end
  end

  # After it the program cannot become nobody once more, and need not.
  def restart(program)
    program.signal(:USR2)
    program.expect(/^Hot restart: all workers run the new code$/)
    GyreTest::Processes.children_of(program.pid).each { |pid| assert_equal [Etc.getpwnam("nobody").uid.to_s] * 4, ids_of(pid) }
  end

  def as_root
    skip "only root can become another user" unless Process.euid.zero?
    skip "other users may not run #{RbConfig.ruby}" unless open_to_all?(RbConfig.ruby) && open_to_all?(ROOT)
    yield Etc.getpwnam("nobody")
  rescue ArgumentError
    skip "this machine has no user nobody"
  end

  def open_to_all?(path)
    Pathname.new(path).realpath.ascend.all? { |part| File.stat(part).mode.allbits?(0o5) || File.stat(part).mode.allbits?(0o1) }
  end

  def ids_of(pid) = File.read("/proc/#{pid}/status")[/^Uid:\s+(.*)$/, 1].split
end
