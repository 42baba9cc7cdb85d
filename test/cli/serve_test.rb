# frozen_string_literal: true

# The command line: help, what it reports about mistakes, where settings come from. (exe/gyre,
# Gyre::CLI::Serve.)

require "test_helper"
require "gyre/cli"
require "gyre/http/limits"
require_relative "../web/serving"

class CLIServeTest < Minitest::Test
  include GyreTest::Serving

  def test_gyre_alone_prints_help
    [[], ["--help"], ["-h"], ["help"]].each do |arguments|
      output = gyre(*arguments)
      assert_equal 0, output.status.exitstatus
      assert_match(/^  serve +Serves a Rack app/, output.out)
    end
  end

  def test_gyre_prints_its_version_and_what_this_build_can_do
    [["--version"], ["-v"]].each { |arguments| assert_match(/\Agyre \d+\.\d+\.\d+\n  Ruby: ruby .*^  HTTP/m, gyre(*arguments).out) }
    assert_match(/\Agyre \d+\.\d+\.\d+\n\z/, gyre("serve", "--version").out)
    output = gyre("--version", env: { "GYRE_BACKEND" => "select" })
    assert_match(/^  HTTP, TLS, logs, memcached: no, the C extension is missing: GYRE_BACKEND=select runs only/, output.out)
  end

  def test_a_check_fails_where_this_build_cannot_serve
    output = gyre("serve", "--check", "app.rb", files: { "app.rb" => "" }, env: { "GYRE_BACKEND" => "select" })
    assert_equal [1, "", "gyre serve: HTTP needs Gyre's C extension: GYRE_BACKEND=select runs only the loop and the scheduler; unset it\n"],
                 [output.status.exitstatus, output.out, output.err]
  end

  def test_a_check_reports_all_faults_at_once_and_gems_that_mix_requests
    files = { "config/gyre.rb" => "threads 5, 5\nport 'http'\nstatic 'nowhere'\ntls cert: 'a.pem', key: 'a.key'\n", "spec.rb" => <<~RUBY }
      Gem.loaded_specs["mongoid"] = Gem::Specification.new("mongoid", "9.0.12")
    RUBY
    output = gyre("serve", "--check", "none.rb", "--access-log", "none/a.log", files: files, env: { "RUBYOPT" => "-r./spec.rb" })
    assert_equal 1, output.status.exitstatus
    faults = ["gyre serve: config/gyre.rb:1: threads: unknown setting; ", "config/gyre.rb:2: port: ", "tls: the certificate a.pem: No such file",
              "there is no file none.rb", "static: there is no folder", "access_log: there is no folder", "mongoid 9.0.12 keeps state by thread"]
    faults << "" if output.err.lines.size > faults.size
    faults.zip(output.err.lines) { |beginning, line| assert_operator line, :start_with?, beginning }
  end

  def test_a_check_looks_for_the_user_and_where_files_go
    { %w[--user no-such-user] => Process.uid.zero? ? "there is no user no-such-user" : "configuration OK",
      %w[--pidfile none/a.pid] => "pidfile: there is no folder",
      %w[--state none/a.state -w 1] => "state: there is no folder", %w[--state none/a.state] => "state: there is no folder",
      %w[--state a.state] => "configuration OK",
      %w[--host] << "" => "--host: must be a host name" }.each do |flags, text|
      output = gyre("serve", "--check", "app.rb", *flags, files: { "app.rb" => "" })
      assert_includes output.out + output.err, text
    end
  end

  def test_a_check_runs_without_rubygems
    output = gyre("serve", "--check", "app.rb", files: { "app.rb" => "" }, env: { "RUBYOPT" => "--disable-gems" })
    assert_equal [0, "configuration OK\n", ""], [output.status.exitstatus, output.out, output.err]
  end

  def test_a_check_looks_for_the_app_and_what_reads_it
    output = gyre("serve", "--check", "app.ru", "--access-log", "none/a.log")
    assert_equal [1, "gyre serve: there is no file app.ru\n"], [output.status.exitstatus, output.err.lines.first]
    assert_match(/\Agyre serve: there is no config\.ru in /, gyre("serve", "--check").err)
    alone = { "GEM_HOME" => "none", "GEM_PATH" => "none", "RUBYLIB" => "", "RUBYOPT" => "" }
    output = gyre("serve", "--check", "app.ru", files: { "app.ru" => "" }, env: alone)
    assert_match(/read by the rack gem, which is not installed/, output.err)
  end

  def test_what_cannot_be_opened_is_reported_with_the_setting_that_it_is_from
    server = TCPServer.new("127.0.0.1", 0)
    port = server.local_address.ip_port.to_s
    files = { "app.ru" => "run ->(_) { [200, {}, []] }" }
    { ["-p", "0", "--metrics", port] => "--metrics", ["-b", "127.0.0.1:#{port}"] => "--bind",
      ["-b", "127.0.0.1:0", "-p", port, "-o", "127.0.0.1"] => "--port" }.each do |flags, flag|
      assert_match(/address already in use\. Choose another with #{flag}, /, gyre("serve", "app.ru", *flags, files: files, gems: true).err)
    end
    # Root may write anywhere.
    logs = gyre("serve", "-p", "0", "--access-log", "/proc/none", "app.ru", files: files, gems: true)
    assert_match(Process.uid.zero? ? %r{open /proc/none: no such file} : %r{access_log: this user may not write in /proc}, logs.err)
  ensure
    server&.close
  end

  def test_an_unknown_command_is_refused_with_those_that_exist
    output = gyre("sreve")
    assert_equal 2, output.status.exitstatus
    assert_equal "gyre: unknown command sreve; did you mean serve? Run `gyre --help`.\n", output.err
    assert_equal "gyre: unknown command server; did you mean serve? Run `gyre --help`.\n", gyre("server").err
    assert_equal "gyre: unknown command xyzzy; known: #{Gyre::CLI::TABLE.map(&:name).join(", ")}. Run `gyre --help`.\n", gyre("xyzzy").err
  end

  def test_serve_has_help_with_every_limit
    output = gyre("serve", "--help")
    assert_equal output.out, gyre("help", "serve").out
    assert_equal 0, output.status.exitstatus
    assert_includes output.out, "Usage: gyre serve"
    assert_equal Gyre::HTTP::Limits::TABLE.count, output.out[/^Limits.*?\n\n/m].scan(/^ +--/).size
  end

  def test_a_bad_flag_is_one_line_and_where_to_look
    output = gyre("serve", "--bnid", "x")
    assert_equal 2, output.status.exitstatus
    assert_equal "gyre serve: --bnid: unknown flag; did you mean --bind?\nRun `gyre serve --help` for the flags.\n", output.err
  end

  def test_a_bad_port_in_the_environment_is_reported
    output = gyre("serve", env: { "PORT" => "http" }, files: { "config.ru" => "run ->(_) { }" }, gems: true)
    assert_equal 2, output.status.exitstatus
    assert_match(/\Agyre serve: PORT=http in the environment: must be a port/, output.err)
  end

  def test_a_missing_config_ru_is_reported_with_an_example
    output = gyre("serve")
    assert_equal 1, output.status.exitstatus
    assert_match(/\Agyre serve: there is no config\.ru in .*\. Name another file/, output.err)
    assert_includes output.err, "run ->(env)"
    refute_includes output.err, ".rb:"
  end

  def test_a_missing_file_that_was_named_is_reported
    output = gyre("serve", "other.ru")
    assert_equal [1, "gyre serve: there is no file other.ru\n"], [output.status.exitstatus, output.err]
  end

  def test_a_rackup_file_without_run_is_reported_in_one_line
    output = gyre("serve", files: { "config.ru" => "use Object\n" }, gems: true)
    assert_equal [1, "gyre serve: config.ru: missing run or map statement\n"], [output.status.exitstatus, output.err]
  end

  def test_a_file_that_is_missing_in_the_app_is_reported_with_its_line
    output = gyre("serve", files: { "config.ru" => "require \"no_such_file\"\n" }, gems: true)
    assert_match(/\Agyre serve: config\.ru raised while it was loaded:\n.*config\.ru:1:.*no_such_file/, output.err)
  end

  def test_a_host_that_cannot_be_one_is_reported_before_the_app_is_loaded
    output = gyre("serve", "--host", "a b")
    assert_equal 2, output.status.exitstatus
    assert_match(/\Agyre serve: --host: "tcp:..a b:0" is not an address: write tcp:/, output.err)
  end

  def test_a_host_that_does_not_resolve_is_reported_in_one_line
    output = gyre("serve", "-b", "tcp://no.such.host.invalid:0", files: { "config.ru" => "run ->(_) { }" }, gems: true)
    assert_equal 1, output.status.exitstatus
    assert_match(/\Agyre serve: listen on tcp:..no\.such\.host\.invalid:0: no address for "no\.such\.host\.invalid" [^\n]*\n\z/,
                 output.err)
  end

  def test_a_syntax_error_shows_file_and_line_and_no_trace
    output = gyre("serve", files: { "config.ru" => "# first line\nrun ]\n" }, gems: true)
    assert_equal 1, output.status.exitstatus
    assert_match(/\Agyre serve: .*config\.ru:2: .*syntax error/m, output.err)
    refute_match(/^\s+from /, output.err)
    refute_includes output.err, "builder.rb"
  end

  def test_an_app_that_raises_while_it_is_loaded_shows_where
    output = gyre("serve", files: { "config.ru" => "# first line\nraise 'no database'\n" }, gems: true)
    assert_equal 1, output.status.exitstatus
    assert_match(/\Agyre serve: config\.ru raised while it was loaded:\n.*config\.ru:2:.*no database/, output.err)
    refute_match(/builder\.rb|rackup_file\.rb|exe.gyre|cli\.rb/, output.err)
  end

  def test_a_ruby_file_is_served_by_the_constant_of_its_name
    app = "module MyApp; def self.call(_env) = [200, {}, ['hello']]; end"
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, "my_app.rb"), app)
      with_subprocess(*ruby_command(EXE, "serve", "my_app.rb", "-b", "127.0.0.1:0"), chdir: folder) do |pid, out, err|
        program = Program.new(self, pid, out, err, folder)
        program.expect(/Use Ctrl-C to stop/)
        assert_includes program.get("/"), "hello"
      end
    end
  end

  def test_a_ruby_file_without_that_constant_is_reported
    output = gyre("serve", "my_app.rb", files: { "my_app.rb" => "# nothing" })
    assert_equal 1, output.status.exitstatus
    assert_match(/\Agyre serve: my_app\.rb does not define MyApp, /, output.err)
  end

  def test_a_folder_is_served_by_its_rackup_file
    output = gyre("serve", "app", files: { "app/config.ru" => "raise 'it is read'" }, gems: true)
    assert_match(%r{\Agyre serve: app/config\.ru raised while it was loaded:\n.*app/config\.ru:1:.*it is read}, output.err)
    output = gyre("serve", "app", files: { "app/other.ru" => "" })
    assert_match(%r{\Agyre serve: there is no config\.ru in .*/app\. Name another file}, output.err)
  end

  def test_without_rack_it_prints_how_to_get_it
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, "rack.rb"), "require 'rack/no_such_file'") # fails as a missing gem does
      File.write(File.join(folder, "config.ru"), "run ->(_) { }")
      output = ruby("-I#{folder}", EXE, "serve", chdir: folder)
      assert_equal 1, output.status.exitstatus
      assert_match(/\Agyre serve: .*`gem install rack`/, output.err)
      assert_equal 1, output.err.lines.size
    end
  end

  def test_a_port_in_use_is_reported_with_a_remedy
    taken = TCPServer.new("127.0.0.1", 0)
    port = taken.local_address.ip_port
    output = gyre("serve", "-b", "tcp://127.0.0.1:#{port}", files: { "config.ru" => "run ->(_) { }" }, gems: true)
    assert_equal 1, output.status.exitstatus
    assert_equal "gyre serve: listen on tcp://127.0.0.1:#{port}: address already in use. Choose another with --bind, or stop the " \
                 "server that holds it; `ss -ltnp 'sport = :#{port}'` shows which process does\n", output.err
  ensure
    taken&.close
  end

  def test_a_port_in_use_that_came_by_port_is_reported_with_that_flag
    taken = TCPServer.new("127.0.0.1", 0)
    port = taken.local_address.ip_port
    output = gyre("serve", "-p", port.to_s, files: { "config.ru" => "run ->(_) { }" }, gems: true)
    assert_equal 1, output.status.exitstatus
    assert_includes output.err, "address already in use. Choose another with --port, or stop"
  ensure
    taken&.close
  end

  def test_an_address_of_another_machine_is_reported
    output = gyre("serve", "-b", "tcp://192.0.2.1:0", files: { "config.ru" => "run ->(_) { }" }, gems: true)
    assert_equal 1, output.status.exitstatus
    assert_equal "gyre serve: listen on tcp://192.0.2.1:0: cannot assign requested address. " \
                 "This machine has no such address: choose another with --bind\n", output.err
  end

  def test_a_folder_that_is_not_there_is_reported
    output = gyre("serve", "-b", "unix:///nowhere/at/all.sock", files: { "config.ru" => "run ->(_) { }" }, gems: true)
    assert_equal 1, output.status.exitstatus
    assert_equal "gyre serve: listen on unix:///nowhere/at/all.sock: no such file or directory. " \
                 "Make its folder first, or choose another with --bind\n", output.err
  end

  def test_a_state_file_whose_folder_is_not_there_is_reported_with_its_flag
    output = gyre("serve", "-w", "1", "-p", "0", "--state", "/nowhere/app.state", files: { "config.ru" => "run ->(_) { }" }, gems: true)
    assert_equal 1, output.status.exitstatus
    assert_equal "gyre serve: listen on unix:///nowhere/app.state.sock: no such file or directory. " \
                 "Make its folder first, or choose another with --state\n", output.err
  end

  def test_a_file_in_the_way_of_a_unix_socket_is_reported
    output = gyre("serve", "-b", "unix://app", files: { "config.ru" => "run ->(_) { }", "app" => "" }, gems: true)
    assert_equal 1, output.status.exitstatus
    assert_equal "gyre serve: listen on unix://app: file exists, and is not a socket. Remove it, or choose another with --bind\n", output.err
  end

  def test_a_missing_permission_is_reported
    require "gyre/cli/listen_errors"
    explain = ->(error) { Gyre::CLI::ListenErrors.explain(error, port: "--bind", host: "--bind") }
    assert_equal "listen on tcp://*:80: permission denied. Ports below 1024 are for root: choose another with --bind",
                 explain[Errno::EACCES.new("listen on tcp://*:80")]
    assert_match(%r{\Alisten on unix:///nowhere/a: permission denied\. This user may not write in /nowhere\z},
                 explain[Errno::EACCES.new("listen on unix:///nowhere/a")])
    assert_match(%r{\A/nowhere/app\.pid: permission denied\. This user may not write in /nowhere\z},
                 explain[Errno::EACCES.new("/nowhere/app.pid")])
  end

  def test_an_unknown_backend_is_refused_with_those_that_exist
    output = gyre("serve", env: { "GYRE_BACKEND" => "warp" }, files: { "config.ru" => "run ->(_) { }" }, gems: true)
    assert_equal 1, output.status.exitstatus
    assert_match(/\Agyre serve: GYRE_BACKEND: .*"warp".*epoll.*select.*\n\z/, output.err)
  end

  def test_a_pidfile_that_cannot_be_written_is_reported
    output = gyre("serve", "-b", "127.0.0.1:0", "--pidfile", "/nowhere/app.pid", files: { "config.ru" => "run ->(_) { }" }, gems: true)
    assert_equal [1, "gyre serve: /nowhere/app.pid: the process id cannot be written: no such file or directory\n"],
                 [output.status.exitstatus, output.err]
  end

  def test_a_pidfile_of_a_living_process_is_refused
    with_subprocess("sleep", "60") do |pid, _, _|
      files = { "config.ru" => "run ->(_) { }", "app.pid" => "#{pid}\n" }
      output = gyre("serve", "-b", "127.0.0.1:0", "--pidfile", "app.pid", files: files, gems: true)
      assert_equal 1, output.status.exitstatus
      assert_match(/app\.pid: process #{pid} has it and runs/, output.err)
    end
  end

  def test_a_mistake_in_the_configuration_file_shows_file_and_line
    output = gyre("serve", "-C", "my.rb", files: { "my.rb" => "port 1\nkep_alive_timeout 5\n" })
    assert_equal [1, "gyre serve: my.rb:2: kep_alive_timeout: unknown setting; did you mean keep_alive_timeout?\n"],
                 [output.status.exitstatus, output.err]
  end

  def test_a_missing_configuration_file_that_was_named_is_reported
    output = gyre("serve", "-C", "none.rb")
    assert_equal 1, output.status.exitstatus
    assert_equal "gyre serve: none.rb: the configuration cannot be read: no such file or directory\n", output.err
  end

  def test_without_the_native_engine_it_prints_in_one_line_what_to_do
    output = gyre("serve", files: { "config.ru" => "run ->(_) {}" }, env: { "GYRE_BACKEND" => "select" })
    assert_equal [1, "gyre serve: HTTP needs Gyre's C extension: GYRE_BACKEND=select runs only the loop and the scheduler; unset it\n"],
                 [output.status.exitstatus, output.err]
  end

  def test_it_prints_what_runs_where
    serve do |program|
      text = program.text(:out)
      assert_match(/^Gyre \d+\.\d+\.\d+ on ruby #{Regexp.escape(RUBY_VERSION)}/, text)
      assert_match(/^  backend: (epoll|io_uring) /, text)
      assert_match(%r{^  listening on http://127\.0\.0\.1:\d+$}, text)
      assert_match(/^  environment development, process #{program.pid}$/, text)
      assert_match(/^Use Ctrl-C to stop$/, text)
    end
  end

  def test_the_file_gives_way_to_the_flags
    file = <<~RUBY
      environment "staging"
      log_format "json"
      bind "unix://file.sock"
      body_bytes_limit 1
    RUBY
    serve("-e", "test", files: { "gyre.rb" => file }, env: {}) do |program| # not config/gyre.rb: not read
      assert_includes program.get("/environment"), "test"
    end
    serve("-C", "gyre.rb", "-e", "test", files: { "gyre.rb" => file }) do |program|
      refute_includes program.urls, "unix://file.sock"
      assert_includes program.get("/environment"), "test"
      assert_match(/^\{"time":/, program.expect(/^\{.*$/).to_s)
    end
  end

  def test_the_usual_configuration_file_is_found
    app = "Dir.mkdir('config') unless Dir.exist?('config')\n#{APP}"
    Dir.mktmpdir do |folder|
      Dir.mkdir(File.join(folder, "config"))
      File.write(File.join(folder, "config/gyre.rb"), "environment 'staging'\nrackup 'app.ru'\nbind 'tcp://127.0.0.1:0'\n")
      File.write(File.join(folder, "app.ru"), app)
      with_subprocess(*ruby_command(EXE, "serve", gems: true), chdir: folder) do |pid, out, err|
        program = Program.new(self, pid, out, err, folder)
        program.expect(/Use Ctrl-C to stop/)
        assert_includes program.get("/environment"), "staging"
      end
    end
  end

  def test_the_environment_comes_from_the_usual_variables
    serve(env: { "RAILS_ENV" => "staging" }) { |program| assert_includes program.get("/environment"), "staging" }
    serve(env: { "APP_ENV" => "test", "RACK_ENV" => "production" }) { |program| assert_includes program.get("/environment"), "test" }
  end

  def test_a_rails_app_outside_of_development_leaves_its_public_files_to_the_server
    files = { "config/application.rb" => "", "public/app-1a2b3c4d.js" => "1" }
    shown = ->(program) { program.get("/app-1a2b3c4d.js")[/^cache-control: public, max-age=31536000|hello/i] }
    serve(files: files, env: { "RAILS_ENV" => "production" }) { |program| assert_match(/cache-control/i, shown[program]) }
    [[%w[-e test], ""], [%w[-e production], "static false"], [%w[-e production], "static 'config'"]].each do |flags, config|
      serve(*flags, files: { **files, "config/gyre.rb" => config }) { |program| assert_equal "hello", shown[program] }
    end
  end

  def test_quiet_prints_nothing
    serve("-q", "-b", "unix://app.sock", ready: nil, port: false) do |program|
      path = File.join(program.folder, "app.sock")
      eventually { File.socket?(path) }
      assert_includes program.get("/", socket: eventually { connect(path) }), "hello"
      program.signal(:TERM)
      assert_equal 0, program.status.exitstatus
      assert_equal ["", ""], [program.text(:out), program.text(:err)]
    end
  end

  def test_the_pidfile_is_there_while_it_runs
    serve("--pidfile", "app.pid") do |program|
      path = File.join(program.folder, "app.pid")
      assert_equal program.pid, File.read(path).to_i
      program.signal(:TERM)
      program.status
      refute_path_exists path
    end
  end

  def test_the_limit_of_descriptors_is_raised
    soft, hard = Process.getrlimit(:NOFILE)
    skip "nothing to raise" if hard == soft && soft < 64
    app = "run ->(_env) { [200, {}, [Process.getrlimit(:NOFILE).first.to_s]] }"
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, "config.ru"), app)
      command = ruby_command(EXE, "serve", "-b", "tcp://127.0.0.1:0", gems: true)
      with_subprocess(*command, chdir: folder, rlimit_nofile: [64, hard]) do |pid, out, err|
        program = Program.new(self, pid, out, err, folder)
        program.expect(/Use Ctrl-C to stop/)
        assert_equal [hard, 1 << 20].min.to_s, program.get("/")[/\d+\z/]
      end
    end
  end

  private

  def connect(path)
    UNIXSocket.new(path)
  rescue Errno::ECONNREFUSED
    nil # bound, and listens in a moment
  end
end
