# frozen_string_literal: true

# The server as people start it: in front and as a daemon, with its pidfile, its signals, and what
# it reports when it cannot start.

require "test_helper"
require "support/processes"
require_relative "../../log/peers"
require "gyre/log/client"
require "gyre/log/viewer"

class CLILogServeTest < Minitest::Test
  include GyreTest::LogPeers

  GYRE = GyreTest::LogPeers::GYRE

  def start_server(config = {}, *arguments, **options)
    log_server(GYRE, config, *arguments, **options)
  end

  def refused(*arguments, files: {}, env: {})
    folder = log_folder
    files.each { |name, text| File.write(File.join(folder, name), text) }
    run_program({ "GYRE_LOG_KEY" => nil }.merge(env), *GYRE.server, *arguments, chdir: folder)
  end

  def log(server, message, key: "")
    server.connect do |socket|
      socket.write(GyreTest::LogPeers.frame("a", "authentication", key))
      assert_equal "accepted\n", socket.gets
      socket.write(GyreTest::LogPeers.frame("a", "info", message))
      socket.close_write
      socket.read
    end
  end

  def test_without_a_configuration_it_writes_to_log
    folder = log_folder
    with_subprocess({ "GYRE_LOG_KEY" => nil }, *GYRE.server, "-p", "0", chdir: folder) do |pid, _out, err|
      line = err.gets
      assert_match(/listens on tcp:\/\/127\.0\.0\.1:\d+; services without a log of their own go to log; process #{pid}$/, line)
      Socket.tcp("127.0.0.1", line[/:(\d+);/, 1].to_i) do |socket|
        socket.write(GyreTest::LogPeers.frame("a", "authentication", "") + GyreTest::LogPeers.frame("a", "info", "hello"))
        assert_equal "accepted\n", socket.gets
      end
      Process.kill(:TERM, pid)
      assert_equal "", err.read
    end
    assert_match(/\|a\|info\|hello$/, File.read(File.join(folder, "log")))
  end

  def test_a_file_and_a_link_to_it_are_one_output
    server = start_server({ "logs" => [{ "service" => "a", "logfile" => "link", "cull" => true }] }, start: false)
    File.symlink("default.log", server.path("link"))
    server.start
    log(server, "one")
    eventually { server.messages == ["one"] }
    assert_equal 0, server.stop(:TERM).exitstatus
  end

  def test_a_log_without_levels_has_every_severity_whatever_the_top_has
    server = start_server({ "levels" => "warn", "logs" => [{ "services" => "a", "logfile" => "a.log" }] })
    log(server, "an info")
    eventually { server.messages("a.log") == ["an info"] }
  end

  def test_int_and_term_write_everything_and_end_with_status_0
    %i[INT TERM].each do |signal|
      server = start_server({ "interval" => 30 })
      log(server, "last words")
      assert_equal 0, server.stop(signal).exitstatus
      assert_equal ["last words"], server.messages
    end
  end

  def test_its_pidfile_goes_with_it
    server = start_server({ "pidfile" => "log.pid" })
    eventually { server.read("log.pid") == "#{server.pid}\n" } # written when it listens already
    server.stop(:TERM)
    assert_equal "", server.read("log.pid")
  end

  def test_root_binds_the_port_and_another_user_has_the_files
    skip "only root can become another user" unless Process.euid.zero?
    Dir.mktmpdir do |folder|
      File.chown(Etc.getpwnam("nobody").uid, nil, folder)
      server = start_server({ "default_log" => "#{folder}/all.log", "user" => "nobody" })
      log(server, "hello")
      eventually { File.exist?("#{folder}/all.log") && File.read("#{folder}/all.log").include?("hello") }
      assert_equal Etc.getpwnam("nobody").uid, File.stat("#{folder}/all.log").uid
      server.stop(:TERM)
    end
  end

  def test_a_pidfile_of_a_living_server_is_refused
    first = start_server({ "pidfile" => "log.pid" })
    eventually { first.read("log.pid") == "#{first.pid}\n" }
    output = run_program(*GYRE.server, "-p", "0", "-w", first.path("log.pid"))
    assert_equal 1, output.status.exitstatus
    assert_match(/\Agyre log: .*log\.pid: process #{first.pid} has it and runs\. Stop it with/, output.err)
    assert_equal "#{first.pid}\n", first.read("log.pid")
  end

  def test_signals_are_handled_from_the_moment_on_at_which_it_reports_that_it_listens
    code = <<~RUBY
      require "gyre/cli/log"
      err = Object.new
      err.define_singleton_method(:puts) do |line|
        $stderr.puts(line)
        %w[HUP TERM].each { |name| Process.kill(name, Process.pid) } if line.include?("listens on")
      end
      exit Gyre::CLI::Log.start(%w[-p 0 -d log -w pid], err: err)
    RUBY
    folder = log_folder
    output = run_program(RbConfig.ruby, "-w", "-I#{GyreTest::Helpers::LIB}", "-e", code, chdir: folder)
    assert_equal 0, output.status.exitstatus, [output.status, output.err].join("\n")
    refute_path_exists File.join(folder, "pid")
  end

  def test_hup_reopens_the_files
    server = start_server
    client = Gyre::Log::Client.new("a", port: server.port, spool: false)
    client.info("one")
    assert client.flush(30) # a line that is only there may still go into the new file
    client.close
    File.rename(server.path("default.log"), server.path("old.log"))
    Process.kill(:HUP, server.pid)
    eventually { server.read("default.log") != "" || File.exist?(server.path("default.log")) }
    log(server, "two")
    eventually { server.messages.include?("two") }
    assert_equal ["one"], server.messages("old.log").first(1)
    eventually { server.read("err").include?("reopened") }
    assert_equal "gyre log: reopened 1 file (HUP)\n", server.read("err").lines.last
  end

  def test_usr2_restarts_with_the_same_process_and_pidfile
    server = start_server({ "pidfile" => "log.pid" })
    log(server, "one")
    server.configure("default_log" => "other.log")
    Process.kill(:USR2, server.pid)
    eventually(what: "a fresh server: #{server.path("err")}") { server.read("err").scan("listens on").size == 2 }
    log(server, "two")
    eventually { server.messages("other.log").include?("two") }
    assert_equal ["one"], server.messages.first(1)
    assert_equal "#{server.pid}\n", server.read("log.pid")
    server.configure("pidfile" => "next.pid")
    Process.kill(:USR2, server.pid)
    eventually(what: "one pidfile") { [server.read("log.pid"), server.read("next.pid")] == ["", "#{server.pid}\n"] }
    assert_equal 0, server.stop(:TERM).exitstatus
    assert_equal "", server.read("next.pid")
  end

  # In the old program, when nothing looks for signals any more; in the fresh one, before it heeds
  # them by itself.
  def test_term_in_the_middle_of_a_restart_ends_it_with_status_0
    { "exec" => "Process.singleton_class.prepend(Module.new { def exec(*) = Process.kill(:TERM, Process.pid) && super })",
      "load" => "Kernel.prepend(Module.new { def require(name) = (Process.kill(:TERM, Process.pid) && nil if name == 'gyre/log/server') || super })" \
                " if ENV.key?('GYRE_HANDOVER')" }.each do |moment, code|
      server = log_server(GYRE, start: false)
      File.write(server.path("#{moment}.rb"), code)
      server.start(env: { "RUBYOPT" => "-r#{server.path("#{moment}.rb")}" })
      socket = TCPSocket.new("127.0.0.1", server.port)
      socket.write(Gyre::Log::Wire.frame("a", "authentication", ""))
      assert_equal "accepted\n", socket.gets
      Process.kill(:USR2, server.pid)
      eventually(what: "the end at #{moment}: #{server.read("err")}") { server.gone? }
      assert_equal 0, server.stop.exitstatus, server.read("err")
      assert_nil socket.gets
      socket.close
    end
  end

  def test_usr2_with_a_mistake_in_the_configuration_changes_nothing
    server = start_server
    Dir.mkdir(server.path("folder"))
    { "prot: 1\n" => "prot: unknown key; did you mean port?",
      "default_log: folder\n" => "default_log: folder is a folder" }.each do |text, said|
      File.write(server.path("log.yml"), text)
      Process.kill(:USR2, server.pid)
      eventually(what: said) { server.read("err").include?("not restarted: log.yml:1: #{said}") }
    end
    log(server, "still here")
    eventually { server.messages.include?("still here") }
  end

  # Another USR2 during a restart, after the configuration has changed once more: where it comes,
  # the log of the configuration before, and what the server says.
  CHANGES = { "pid" => ["checked.log", /go to checked\.log.*go to last\.log/m],
              "ppid" => ["folder", /not restarted: .*folder is a folder.*go to last\.log/m] }.freeze
  CHANGE = <<~'RUBY'
    change = Module.new do
      define_method(:require) do |name|
        if name == (MOMENT == "ppid" ? "gyre/cli/log/configuration" : "gyre/log/server") && !File.exist?("done")
          File.write("done", "")
          File.write("log.yml", TEXT)
          Process.kill(:USR2, Process.public_send(MOMENT))
        end
        super(name)
      end
    end
    Kernel.prepend(change) if ENV.fetch("GYRE_HANDOVER", "").end_with?(" #{Process.public_send(MOMENT)}")
  RUBY

  def test_a_configuration_that_changes_during_a_restart_counts_as_it_was_checked_and_is_read_again
    CHANGES.each do |moment, (log, said)|
      server = log_server(GYRE, start: false)
      first = server.read("log.yml")
      File.write(server.path("change.rb"), "MOMENT, TEXT = #{moment.dump}, #{first.sub("default.log", "last.log").dump}\n#{CHANGE}")
      Dir.mkdir(server.path("folder"))
      server.start(env: { "RUBYOPT" => "-r#{server.path("change.rb")}" })
      File.write(server.path("log.yml"), first.sub("default.log", log))
      Process.kill(:USR2, server.pid)
      eventually(what: "#{moment}: #{server.path("err")}") { server.read("err").match?(said) }
      assert_equal 0, server.stop(:TERM).exitstatus, server.read("err")
    end
  end

  def test_usr2_with_a_port_that_another_has_changes_nothing
    server = start_server
    TCPServer.open("127.0.0.1", 0) do |taken|
      address = "tcp://127.0.0.1:#{taken.local_address.ip_port}"
      server.configure("inputs" => [{ "type" => "json", "bind" => address }])
      Process.kill(:USR2, server.pid)
      eventually { server.read("err").include?("not restarted: listen on #{address}: address already in use") }
    end
    log(server, "still here")
    eventually { server.messages.include?("still here") }
    Process.kill(:USR2, server.pid) # now it is free
    eventually { server.read("err").scan("listens on").size == 2 }
  end

  def test_a_daemon_is_a_process_of_its_own_and_its_caller_waits_until_it_listens
    folder = log_folder
    port = free_port
    output = run_program({ "GYRE_LOG_KEY" => nil }, *GYRE.server, "-x", "-w", "log.pid", "-p", port.to_s, "-d", "all.log", chdir: folder)
    pid = File.read(File.join(folder, "log.pid")).to_i
    @started << -> { Process.kill(:KILL, pid) if alive?(pid) }
    assert_equal [0, ""], [output.status.exitstatus, output.out]
    assert_equal pid, Gyre::Log::Viewer.new(port, timeout_s: 30).status["pid"] # it listened at once
    refute_equal Process.getpgid(Process.pid), Process.getpgid(pid)
    assert_keeps_its_number_through_usr2(pid, port, folder)
    Process.kill(:TERM, pid)
    eventually { !alive?(pid) }
    refute_path_exists File.join(folder, "log.pid")
  end

  def assert_keeps_its_number_through_usr2(pid, port, folder)
    viewer = Gyre::Log::Viewer.new(port, timeout_s: 30) # a question may wait for the fresh server
    frames = GyreTest::LogPeers.frame("a", "authentication", "") + (GyreTest::LogPeers.frame("a", "info", "one") * 9)
    Socket.tcp("127.0.0.1", port) do |socket|
      socket.write(frames)
      socket.close_write
      socket.read
    end
    eventually { viewer.status["messages"] >= 9 }
    Process.kill(:USR2, pid)
    eventually do
      viewer.status["messages"] < 9 # it counts from zero again
    rescue Errno::ECONNRESET, EOFError
      nil # asked at the moment of the change
    end
    assert_equal [pid, pid], [viewer.status["pid"], File.read(File.join(folder, "log.pid")).to_i]
  end

  def alive?(pid) = !GyreTest::Processes.ended?(pid)

  def test_a_daemon_without_a_pidfile_prints_its_number
    output = run_program({ "GYRE_LOG_KEY" => nil }, *GYRE.server, "-x", "-p", "0", chdir: log_folder)
    pid = output.out[/\APID (\d+)\n\z/, 1].to_i
    assert alive?(pid)
    Process.kill(:TERM, pid)
    eventually { !alive?(pid) }
  end

  # $(gyre log -x) in a shell.
  def test_a_daemon_lets_go_of_the_reader_of_what_its_command_prints
    command = IO.popen([{ "GYRE_LOG_KEY" => nil }, *GYRE.server, "-x", "-p", "0", { chdir: log_folder, err: File::NULL }])
    pid = command.gets[/\APID (\d+)\n\z/, 1].to_i
    assert command.wait_readable(45), "standard output is still open"
    assert_nil command.gets
  ensure
    Process.kill(:TERM, pid)
    eventually { !alive?(pid) }
    command.close
  end

  def test_a_daemon_that_cannot_start_is_reported_by_its_caller
    first = start_server
    output = run_program(*GYRE.server, "-x", "-p", first.port.to_s, "-w", first.path("log.pid"), "-d", first.path("x"))
    assert_equal [1, ""], [output.status.exitstatus, output.out]
    assert_match(/address already in use/, output.err)
    assert_equal "", first.read("log.pid")
  end

  def test_a_port_that_is_taken_is_reported_with_a_remedy
    first = start_server
    output = refused("-p", first.port.to_s)
    assert_equal [1, "gyre log: listen on tcp://127.0.0.1:#{first.port}: address already in use. Choose another with -p, or stop the " \
                     "server that holds it; `ss -ltnp 'sport = :#{first.port}'` shows which process does\n"], [output.status.exitstatus, output.err]
  end

  def test_a_unix_socket_that_is_taken_is_reported_with_the_flag_for_it
    Dir.mktmpdir do |folder|
      UNIXServer.open(path = File.join(folder, "s")) do
        assert_equal "gyre log: listen on unix://#{path}: address already in use. Choose another with -b, or stop the server that holds it\n",
                     refused("-b", "unix://#{path}").err
      end
    end
  end

  def test_a_socket_whose_folder_is_not_there_is_reported_with_a_remedy
    assert_equal "gyre log: listen on unix:///nowhere/s: no such file or directory. Make its folder first, or choose another with -b\n",
                 refused("-b", "unix:///nowhere/s").err
  end

  def test_a_folder_that_is_not_there_is_reported
    output = refused("-p", "0", "-d", "nowhere/log")
    assert_equal [2, "gyre log: --default-log: the folder nowhere is not there: make it first\n"],
                 [output.status.exitstatus, output.err.lines.first]
  end

  def test_a_certificate_that_is_none_is_reported
    output = refused("-c", "log.yml", files: { "log.yml" => "port: 0\ntls: {cert: log.yml, key: log.yml}\n" })
    assert_equal [1, "gyre log: log.yml:2: tls: the certificate log.yml holds no PEM certificate\n"], [output.status.exitstatus, output.err]
  end

  def test_a_backend_that_is_not_there_is_reported
    output = refused("-p", "0", env: { "GYRE_BACKEND" => "carrier_pigeon" })
    assert_equal 1, output.status.exitstatus
    assert_match(/\Agyre log: GYRE_BACKEND: .*carrier_pigeon/, output.err)
    assert_equal 1, output.err.lines.size
  end

  def test_the_key_of_the_environment_wins_over_the_file
    server = start_server({ "key" => "other" }, start: false).start(env: { "GYRE_LOG_KEY" => "sesame" })
    log(server, "in", key: "sesame")
    refute_includes server.read("err"), "sesame"
  end
end
