# frozen_string_literal: true

# `gyre serve` as a process: requests, several addresses, logs, and every way to end.

require "test_helper"
require "pty"
require "json"
require_relative "serving"

class WebServeTest < Minitest::Test
  include GyreTest::Serving

  def test_it_listens_on_every_address
    serve("-b", "tcp://127.0.0.2:0", "-b", "unix://app.sock") do |program|
      assert_equal %w[http unix http], program.urls.map { |url| url[/\A\w+/] }
      program.urls.grep(/\Ahttp/).each { |url| assert_equal "hello", Net::HTTP.get(URI(url)) }
      path = File.join(program.folder, "app.sock")
      assert_match(%r{\AHTTP/1\.1 200 OK\r\n.*\r\n\r\nhello\z}m, program.get("/", socket: UNIXSocket.new(path)))
      program.signal(:TERM)
      program.status
      refute_path_exists path
    end
  end

  def test_it_takes_over_a_stale_unix_socket
    Dir.mktmpdir do |folder|
      path = File.join(folder, "app.sock")
      UNIXServer.new(path).close
      serve("-b", "unix://#{path}") do |program|
        assert_includes program.get("/", socket: UNIXSocket.new(path)), "hello"
      end
    end
  end

  # Three of them are the application's.
  def test_a_request_makes_few_objects
    app = "run ->(env) { [200, {}, [GC.stat(:total_allocated_objects).to_s]] }"
    serve("-w", "0", app: app, env: { "APP_ENV" => "production" }) do |program|
      socket = TCPSocket.new("127.0.0.1", program.port)
      counts = Array.new(60) { program.request("/", socket: socket, connection: "keep-alive").readpartial(4096)[/\d+\z/].to_i }
      assert_operator counts.each_cons(2).map { |one, other| other - one }.tally.max_by(&:last).first, :<=, 13
      socket.close
    end
  end

  # Without -w, with which Ruby prints a line about it.
  def test_ruby_3_4_gets_a_setting_for_its_heap_unless_the_environment_has_one
    Dir.mktmpdir do |folder|
      File.write("#{folder}/config.ru", <<~RUBY)
        puts ENV.values_at("RUBY_GC_HEAP_FREE_SLOTS_MIN_RATIO", "RUBY_FIBER_VM_STACK_SIZE").compact.join(" ")
        exit!
      RUBY
      found = [{}, { "RUBY_GC_HEAP_FREE_SLOTS_MIN_RATIO" => "0.1" }, { "RUBY_FIBER_VM_STACK_SIZE" => "500000" }].map do |set|
        run_program(set, RbConfig.ruby, "-I#{LIB}", "#{ROOT}/exe/gyre", "serve", "-w", "0", chdir: folder).out.lines.last&.chomp
      end
      usual = RUBY_VERSION.start_with?("3.4.") ? "0.05 " : ""
      assert_equal ["#{usual}1048576", "0.1 1048576", "#{usual}500000"], found
    end
  end

  def test_int_ends_an_idle_server_at_once = check_signal_ends_an_idle_server("INT")

  def test_term_ends_an_idle_server_at_once = check_signal_ends_an_idle_server("TERM")

  def check_signal_ends_an_idle_server(signal)
    serve("--shutdown-timeout", "300", "--keep-alive-timeout", "300") do |program|
      kept = program.request("/", connection: "keep-alive")
      assert_match(/200 OK/, kept.readpartial(1000))
      program.signal(signal)
      assert_equal 0, program.status.exitstatus # it does not wait for the connection, which might for these times
      assert_nil kept.read(1)
      kept.close
      program.expect(/^Stopping\n(.* 200 5\n)?Stopped\n/)
      assert_equal "", program.text(:err)
    end
  end

  def test_signals_that_need_workers_are_explained_and_quit_prints_tasks
    serve do |program|
      { "USR1" => "a rolling restart", "USR2" => "a hot restart", "TTIN" => "a worker more", "TTOU" => "a worker fewer" }.each do |name, what|
        program.signal(name)
        program.expect(/^#{name}: #{what} needs workers: start the server with --workers 1 or more$/)
      end
      program.signal("QUIT")
      program.expect(/^tasks of process #{program.pid}:$/, :err)
      assert_includes program.get("/"), "hello"
    end
  end

  def test_term_lets_a_running_request_finish_and_takes_no_more
    serve do |program|
      port = program.port
      slow = program.request("/wait")
      program.expect(/^waiting$/)
      program.signal(:TERM)
      program.expect(/^Stopping\. 1 request may finish within 30 s/)
      assert_raises(Errno::ECONNREFUSED) { TCPSocket.new("127.0.0.1", port) }
      File.write(File.join(program.folder, "go"), "")
      assert_match(%r{\AHTTP/1\.1 200 OK.*done\z}m, slow.read)
      slow.close
      assert_equal 0, program.status.exitstatus
    end
  end

  def test_a_request_that_takes_too_long_is_cancelled
    serve("--shutdown-timeout", "0.2") do |program|
      slow = program.request("/forever")
      program.expect(/^waiting$/)
      program.signal(:TERM)
      assert_equal 0, program.status.exitstatus
      assert_equal "", slow.read.to_s
      slow.close
      assert_match(/^cleaned up$/, program.text(:out))
      assert_match(/^Stopped\. What still ran was cancelled$/, program.text(:out))
    end
  end

  def test_a_second_signal_stops_at_once
    serve("--shutdown-timeout", "300") do |program|
      slow = program.request("/forever")
      program.expect(/^waiting$/)
      program.signal(:INT)
      program.expect(/^Stopping\. /)
      program.signal(:INT)
      assert_equal 0, program.status.exitstatus
      slow.close
      assert_match(/^Stopping at once$/, program.text(:out))
      assert_match(/^cleaned up$/, program.text(:out))
    end
  end

  def test_an_app_that_will_not_be_cancelled_does_not_keep_the_process
    app = <<~'RUBY'
      run(lambda do |_env|
        puts "waiting"
        sleep
      rescue Exception
        sleep
      end)
    RUBY
    serve("--shutdown-timeout", "0", "--pidfile", "app.pid", app: app) do |program|
      stubborn = program.request("/")
      program.expect(/^waiting$/)
      program.signal(:TERM)
      assert_equal 1, program.status.exitstatus
      stubborn.close
      program.expect(/gyre: 1 cancelled requests go on/, :err)
      refute_path_exists File.join(program.folder, "app.pid")
    end
  end

  def test_a_third_signal_ends_an_app_that_computes_without_end
    app = "run ->(_env) { puts 'waiting'; loop { Integer.sqrt(2) } }"
    serve(app: app) do |program|
      busy = program.request("/")
      program.expect(/^waiting$/)
      # Signals that are not taken yet are merged into one by the kernel, so each has to be seen to
      # arrive.
      eventually(what: "the end") do
        program.signal(:INT)
        Process.waitpid2(program.pid, Process::WNOHANG)
      end
      busy.close
    end
  end

  def test_one_signal_ends_a_server_whose_app_computes_without_end
    app = "run ->(_env) { puts 'waiting'; loop { Integer.sqrt(2) } }"
    serve("--shutdown-timeout", "0", app: app) do |program|
      busy = program.request("/")
      program.expect(/^waiting$/)
      program.signal(:TERM)
      assert_equal 0, program.status.exitstatus
      assert_equal "", busy.read.to_s
      busy.close
      assert_match(/a request computes and keeps the server from stopping/, program.text(:err))
      assert_match(/^Stopped/, program.text(:out))
    end
  end

  def test_an_exception_for_the_servers_thread_ends_it_in_order
    app = <<~'RUBY'
      run(lambda do |env|
        if env["PATH_INFO"] == "/raise"
          thread = Thread.current
          Thread.new { sleep 0.01 until $waiting; thread.raise("for the server's thread") }
        end
        puts "waiting"
        $waiting = env["PATH_INFO"] == "/wait"
        sleep
      ensure
        puts "cleaned up"
      end)
    RUBY
    serve("--shutdown-timeout", "300", "--pidfile", "app.pid", app: app) do |program|
      waiting = %w[/raise /wait].map { |path| program.request(path).tap { program.expect(/waiting/) } }
      assert_equal 1, program.status.exitstatus
      assert_equal ["", ""], waiting.map { |socket| socket.read.to_s.tap { socket.close } }
      assert_match(/for the server's thread \(RuntimeError\)/, program.text(:err))
      assert_equal 2, program.text(:out).scan("cleaned up").size
      refute_path_exists File.join(program.folder, "app.pid")
    end
  end

  def test_a_signal_counts_while_a_server_breaks_off
    app = <<~'RUBY'
      run(lambda do |env|
        thread = Thread.current
        Thread.new { sleep 0.01 until $waiting; thread.raise("for the server's thread") }
        begin
          $waiting = true
          sleep
        ensure
          puts "breaking off"
          loop { Integer.sqrt(2) }
        end
      end)
    RUBY
    serve(app: app) do |program|
      busy = program.request("/")
      program.expect(/^breaking off$/)
      program.signal(:TERM)
      refute_predicate program.status, :success?
      busy.close
    end
  end

  def test_an_app_that_raises_gives_500_and_a_trace_in_the_log
    serve do |program|
      assert_match(%r{\AHTTP/1\.1 500 Internal Server Error}, program.get("/raise"))
      program.expect(/^\d{4}-\d\d-\d\dT[\d:.]+[+-][\d:]+ gyre: GET \/raise: unhandled in the app: .*config\.ru:\d+:.*app trouble/, :err)
      assert_includes program.get("/"), "hello"
    end
  end

  def test_requests_are_logged_as_asked
    serve("--log-format", "json") do |program|
      program.get("/a?b=c")
      record = JSON.parse(program.expect(/^\{.*\}$/).to_s)
      assert_equal ["GET", "/a?b=c", 200, 5], record.values_at("method", "target", "status", "bytes")
    end
    serve("-e", "production") do |program|
      program.get("/")
      program.signal(:TERM)
      program.status
      refute_match(/GET/, program.text(:out))
    end
  end

  def test_no_line_of_the_log_is_lost_at_the_end
    serve do |program|
      20.times { |number| program.get("/#{number}") }
      program.signal(:TERM)
      program.status
      assert_equal 20, program.text(:out).scan(%r{"GET /\d+ HTTP/1\.1" 200 5$}).size
    end
  end

  def test_limits_of_the_command_line_hold
    serve("--request-line-bytes-limit", "100") do |program|
      assert_match(%r{\AHTTP/1\.1 414 }, program.get("/#{"a" * 200}"))
    end
  end

  def test_curl_is_served
    curl = need_program("curl")
    serve do |program|
      output = run_program(curl, "-s", "-i", "--max-time", "60", program.urls.first)
      assert_match(%r{\AHTTP/1\.1 200 OK\r\n.*hello\z}m, output.out)
    end
  end

  def test_hup_ends_nothing_and_is_reported
    serve do |program|
      program.signal(:HUP)
      program.expect(/^HUP: nothing is opened or loaded again/)
      assert_includes program.get("/"), "hello"
      program.signal(:TERM)
      assert_equal 0, program.status.exitstatus
    end
  end

  def test_the_end_of_its_terminal_ends_it
    [[], %w[-w 1]].each do |workers|
      with_terminal("Process.setsid; File.open(ARGV.shift)", *workers) do |terminal, pid|
        terminal.close
        _, status = Process.wait2(pid)
        assert_predicate status, :exited?
      end
    end
  end

  # Nohup lets the signal be ignored; after setsid the terminal's end sends none, but logrotate
  # does.
  def test_under_nohup_or_without_a_controlling_terminal_it_outlives_its_terminal
    ["Process.setsid; File.open(ARGV.shift); trap(:HUP, :IGNORE)", "Process.setsid; ARGV.shift"].each do |start|
      with_terminal(start, "-w", "1") do |terminal, pid, log|
        terminal.close
        Process.kill(:HUP, pid)
        eventually { File.read(log).include?("HUP: the workers open") }
        Process.kill(:TERM, pid)
        assert_equal 0, Process.wait2(pid).last.exitstatus
        refute_match(/Stopping.*HUP:/m, File.read(log))
      end
    end
  end

  # Runs the code with the terminal's path first; standard input is the terminal.
  def with_terminal(start, *words)
    need_terminal
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, "config.ru"), APP)
      log = File.join(folder, "log")
      terminal, shown = PTY.open
      pid = Process.spawn(*ruby_command("-e", "#{start}; load ARGV.shift", shown.path, EXE, "serve", "-b", "127.0.0.1:0", *words, gems: true),
        chdir: folder, in: shown, out: log, err: log)
      shown.close
      eventually { File.read(log).include?("Ctrl-C") }
      yield terminal, pid, log
    end
  end

  def test_the_watchdog_names_the_request_that_holds_the_loop
    app = "run ->(_env) { nil until File.exist?('go'); [200, {}, ['done']] }"
    serve(app: app, env: { "GYRE_WATCHDOG_MS" => "10" }) do |program|
      request = program.request("/slow?a=b")
      program.expect(%r{^gyre watchdog: the request GET /slow has held the loop of thread main for }i, :err)
      File.write(File.join(program.folder, "go"), "")
      assert_match(/done\z/, request.read)
      request.close
    end
  end

  def test_a_request_over_a_unix_socket_is_logged_with_a_client
    serve("-b", "unix://app.sock", port: false) do |program|
      program.get("/", socket: UNIXSocket.new(File.join(program.folder, "app.sock")))
      program.expect(%r{^unix: - - \[.*\] "GET / HTTP/1\.1" 200 5$})
    end
  end
end
