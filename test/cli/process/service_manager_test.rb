# frozen_string_literal: true

# What a service manager is told (sd_notify(3)), with a real datagram socket in systemd's place, and
# sockets that it opened.

require "test_helper"
require "support/manager"
require "support/processes"
require "gyre/cli/serve"
require "gyre/cli/process/service_manager"
require_relative "../../web/serving"

class CLIServiceManagerTest < Minitest::Test
  include GyreTest::Serving
  include GyreTest::WithManager

  def test_without_a_manager_nothing_is_told
    manager = Gyre::CLI::ServiceManager.new({})
    assert_nil manager.ready
    assert_nil manager.watchdog_s
  end

  def test_messages_and_the_watchdogs_half_time
    with_manager do |manager|
      told = Gyre::CLI::ServiceManager.new({ "NOTIFY_SOCKET" => manager.path, "WATCHDOG_USEC" => "3000000" })
      assert_in_delta 1.5, told.watchdog_s
      told.ready
      2.times { told.status("all is well") }
      told.reloading
      told.alive
      told.stopping
      assert_match(/\ARELOADING=1\nMONOTONIC_USEC=\d+\z/, manager.told.delete_at(2))
      assert_equal ["READY=1", "STATUS=all is well", "WATCHDOG=1", "STOPPING=1"], manager.told
    end
  end

  # The manager reads again a moment later.
  def test_a_status_that_found_the_queue_full_is_told_again
    with_manager do |manager|
      manager.stop_reading
      told = Gyre::CLI::ServiceManager.new({ "NOTIFY_SOCKET" => manager.path })
      nil while told.alive
      2.times { assert_nil told.status("all is well") }
      assert_equal ["WATCHDOG=1"], manager.told.uniq
      2.times { told.status("all is well") }
      assert_equal 1, manager.told.count("STATUS=all is well")
    end
  end

  def test_a_watchdog_of_another_process_and_a_manager_that_has_gone_are_not_errors
    manager = Gyre::CLI::ServiceManager.new({ "NOTIFY_SOCKET" => "/nonexistent/notify", "WATCHDOG_USEC" => "3000000", "WATCHDOG_PID" => "1" })
    assert_nil manager.watchdog_s
    assert_nil manager.ready
  end

  def test_a_server_with_workers_tells_its_manager_how_it_is = check_manager_is_told("-w", "1")

  def test_a_server_with_one_process_tells_its_manager_how_it_is = check_manager_is_told("-w", "0")

  def check_manager_is_told(*flags)
    with_manager do |manager|
      serve(*flags, env: { "NOTIFY_SOCKET" => manager.path, "WATCHDOG_USEC" => "1000000" }) do |program|
        eventually { manager.told.include?("READY=1") }
        eventually { manager.told.count("WATCHDOG=1") >= 2 }
        eventually { manager.told.grep(/\ASTATUS=.*running/).any? }
        manager.told.clear
        program.signal(:HUP)
        eventually { manager.told.drop_while { |message| !message.start_with?("RELOADING=1") }.include?("READY=1") }
        program.signal(:TERM)
        assert_equal 0, program.status.exitstatus
        assert_includes manager.told, "STOPPING=1"
      end
    end
  end

  def test_a_reload_before_the_workers_serve_does_not_tell_that_they_do
    with_manager do |manager|
      app = "puts 'loads'\nsleep 0.01 until File.exist?('go')\nrun ->(env) { [200, {}, []] }"
      serve("-w", "1", app: app, env: { "NOTIFY_SOCKET" => manager.path }, ready: /^loads/) do |program|
        program.signal(:HUP)
        program.expect(/^HUP: /)
        sleep(0.1)
        assert_empty manager.told.grep(/READY|RELOADING/)
        File.write("#{program.folder}/go", "")
        eventually { manager.told.include?("READY=1") }
      end
    end
  end

  def test_restarts_are_told_and_the_watchdog_is_silent_while_no_worker_answers
    with_manager do |manager|
      app = "run ->(env) { loop { Integer.sqrt(2) } if env['PATH_INFO'] == '/stuck'; [200, {}, ['hello']] }"
      serve("-w", "1", app: app, env: { "NOTIFY_SOCKET" => manager.path, "WATCHDOG_USEC" => "2500000" }) do |program|
        %i[USR1 USR2].each do |signal|
          manager.told.clear
          program.signal(signal)
          eventually { manager.told.drop_while { |message| !message.start_with?("RELOADING=1") }.include?("READY=1") }
          program.expect(signal == :USR1 ? /^Rolling restart: all/ : /^Hot restart: all/)
        end
        stuck = program.request("/stuck")
        eventually { manager.told.clear && sleep(1.4) && manager.told.none?("WATCHDOG=1") }
        stuck.close
        Process.kill(:KILL, *GyreTest::Processes.children_of(program.pid))
      end
    end
  end

  def test_sockets_of_a_service_manager_are_taken_by_a_server_with_workers = check_sockets_of_a_manager_are_taken("-w", "1")

  def test_sockets_of_a_service_manager_are_taken_by_a_server_with_one_process = check_sockets_of_a_manager_are_taken("-w", "0")

  def check_sockets_of_a_manager_are_taken(*flags)
    Dir.mktmpdir do |folder|
      path = File.join(folder, "app.sock")
      tcp = TCPServer.new("127.0.0.1", 0)
      unix = UNIXServer.new(path)
      activated(folder, flags, [tcp, unix]) do |program|
        assert_equal ["http://127.0.0.1:#{tcp.local_address.ip_port}", "unix://#{path}"], program.urls
        assert_includes program.get("/"), "hello"
        if flags.include?("1")
          program.signal(:USR2)
          program.expect(/^Hot restart: all workers run the new code$/)
        end
        assert_includes program.get("/", socket: UNIXSocket.new(path)), "hello"
        program.signal(:TERM)
        assert_equal 0, program.status.exitstatus
      end
      assert_path_exists path # it is the manager's
      TCPSocket.new("127.0.0.1", tcp.local_address.ip_port).close # so is the socket: it listens
    ensure
      [tcp, unix].compact.each(&:close)
    end
  end

  def test_the_units_of_the_guide_are_right
    guide = File.read(File.join(ROOT, "docs/deploy.md"))
    units = guide.scan(%r{^```ini\n# /etc/systemd/system/(\S+)\n(.*?)^```}m).to_h
    assert_equal %w[app.service app.socket], units.keys
    assert_empty units.values.flat_map { |text| text.lines.reject { |line| line.match?(/\A(?:\[\w+\]|[A-Z]\w+=.+)?\n\z/) } }
    words = units["app.service"][/^ExecStart=.* gyre serve (.*)$/, 1].split
    Gyre::CLI::Serve.new.flags.read(words) # raises where one is unknown
    analyze = need_program("systemd-analyze")
    Dir.mktmpdir do |folder|
      paths = units.map do |name, text|
        File.join(folder, name).tap { |path| File.write(path, text.sub("/usr/bin/bundle", "/bin/true").sub("/srv/app/current", "/")) }
      end
      output = run_program(analyze, "verify", "--man=no", *paths)
      assert_empty output.err.lines.grep(/app\.(?:service|socket)/), output.err
      assert_predicate output.status, :success?
    end
  end

  private

  # As systemd does: the descriptors from 3 on, and LISTEN_PID is the process that is started.
  def activated(folder, flags, sockets)
    File.write(File.join(folder, "config.ru"), APP)
    script = 'ENV["LISTEN_PID"] = Process.pid.to_s; exec(*ARGV, 3 => 3, 4 => 4)'
    command = ruby_command("-e", script, "--", RbConfig.ruby, "-w", "-I#{LIB}", EXE, "serve", *flags,
                           env: { "LISTEN_FDS" => sockets.size.to_s, "APP_ENV" => nil, "RACK_ENV" => nil }, gems: true)
    redirections = sockets.each_with_index.to_h { |socket, index| [3 + index, socket] }
    with_subprocess(*command, chdir: folder, **redirections) do |pid, out, err|
      program = Program.new(self, pid, out, err, folder)
      program.expect(/Use Ctrl-C to stop/)
      yield program
    end
  end
end
