# frozen_string_literal: true

# The one life of every server: what each prints, tells a service manager and does at each signal,
# and what it does with its pidfile, state file, metrics and user. The servers are rows of a table.

require "test_helper"
require "support/manager"
require "support/processes"
require "net/http"

class LifetimeServersTest < Minitest::Test
  include GyreTest::WithManager

  # The command's words, what it prints when it serves, the line that follows each signal, and what
  # keeps it busy.
  Server = Struct.new(:words, :serves, :signals, :busy) do
    def state? = words.include?("--state")

    def metrics? = words.include?("--metrics")
  end

  # Signals for a step that the server lacks.
  def self.absent(*names) = names.to_h { |name| [name, /^(?:gyre \w+: )?#{name}: a .* (?:needs workers|is not possible)/] }

  LOG = /^gyre log: listens on tcp:.*process \d+$/
  DNS = /^gyre dns: listens on .*process \d+/
  RULES_AGAIN = /^gyre dns: rules and zones are read again$/
  ROLLING, HOT = %w[Rolling Hot].map { |kind| /^#{kind} restart: all workers run the new code$/ }
  SERVED = /Use Ctrl-C to stop/
  WEB = %w[-b tcp://127.0.0.1:0 --pidfile server.pid --metrics 127.0.0.1:0 --state server.state].freeze
  NAMES = %w[-c rules.rb -b 127.0.0.1:0 --pidfile server.pid --metrics 127.0.0.1:0].freeze
  # Each opens what the server is to be busy with, from what it has printed.
  REQUEST = ->(printed) { [TCPSocket.new("127.0.0.1", printed[%r{http://127\.0\.0\.1:(\d+)}, 1]).tap { |tcp| tcp.write("GET /slow HTTP/1.0\r\n\r\n") }] }
  QUESTIONS = lambda do |printed|
    port = printed[%r{tcp://127\.0\.0\.1:(\d+)}, 1]
    [TCPSocket.new("127.0.0.1", port).tap { |tcp| tcp.write(SLOW) },
     UDPSocket.new.tap { |udp| udp.connect("127.0.0.1", port) && udp.send(SLOW.byteslice(2..), 0) }]
  end
  SLOW = "\x00\x1b\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x04slow\x04test\x00\x00\x01\x00\x01".b
  SERVERS = {
    web: Server.new(["serve", "-w", "0", *WEB], SERVED,
      { HUP: /HUP: nothing is opened or loaded again/, **absent(:USR1, :USR2, :TTIN, :TTOU) }, REQUEST),
    web_with_workers: Server.new(["serve", "-w", "1", *WEB], SERVED,
      { HUP: /HUP: the workers open their log/, USR1: ROLLING, USR2: HOT, TTIN: /^2 workers from now on$/, TTOU: /^1 worker from now on$/ }, REQUEST),
    log: Server.new(%w[log -p 0 -w server.pid], LOG, { HUP: /^gyre log: reopened 1 file \(HUP\)$/, USR2: LOG, **absent(:USR1, :TTIN, :TTOU) }),
    dns: Server.new(["dns", *NAMES], DNS, { HUP: RULES_AGAIN, USR2: DNS, **absent(:USR1, :TTIN, :TTOU) }, QUESTIONS),
    dns_with_workers: Server.new(["dns", "-w", "1", *NAMES], /#{DNS} with 1 workers$/,
      { HUP: RULES_AGAIN, USR1: ROLLING, USR2: HOT, **absent(:TTIN, :TTOU) }, QUESTIONS)
  }.freeze
  FILES = { "config.ru" => "run ->(env) { $stdout.puts('asked') || sleep(60) if env['PATH_INFO'] == '/slow'; [200, {}, ['hello']] }\n",
            "rules.rb" => "match('a.test') { |t| t.respond!('192.0.2.1') }\nmatch('slow.test') { warn('asked') || sleep(60) }\n" }.freeze

  SERVERS.each do |name, server|
    define_method(:"test_the_life_of_a_server_#{name}") { check_life(server) }
    define_method(:"test_a_second_signal_ends_a_server_#{name}_at_once") { check_ends(server) } if server.busy
    define_method(:"test_an_unknown_user_is_reported_by_a_server_#{name}") { check_user(server) }
  end

  def check_life(server)
    with_manager do |manager, folder|
      start(server, manager, folder) do |pid, printed|
        serves(server, manager, printed)
        assert_equal "#{pid}\n", file(folder, "server.pid")
        assert_equal server.state?, file(folder, "server.state").to_s.include?(pid.to_s)
        measured(server, printed)
        eventually { manager.told.include?("WATCHDOG=1") && manager.told.grep(/\ASTATUS=/).any? }
        Process.kill(:QUIT, pid)
        eventually(what: "the tasks: #{printed.call}") { printed.call.include?("tasks of process #{pid}:") }
        server.signals.each { |name, line| obeys(name, line, pid, manager, printed) }
        assert_equal "#{pid}\n", file(folder, "server.pid")
        measured(server, printed)
        Process.kill(:TERM, pid)
        assert_equal 0, Process.wait2(pid).last.exitstatus, printed.call
        eventually { manager.told.count("STOPPING=1") == 1 }
        assert_empty Dir.children(folder).grep(/server/)
      end
    end
  end

  def check_ends(server)
    with_manager do |manager, folder|
      start(server, manager, folder) do |pid, printed|
        serves(server, manager, printed)
        sockets = server.busy.call(printed.call)
        eventually(what: "what is asked: #{printed.call}") { printed.call.scan("asked").size == sockets.size }
        Process.kill(:INT, pid)
        eventually { manager.told.include?("STOPPING=1") }
        assert_nil Process.wait2(pid, Process::WNOHANG)
        Process.kill(:INT, pid)
        assert_equal 0, Process.wait2(pid).last.exitstatus, printed.call
        assert_empty Dir.children(folder).grep(/server/)
      ensure
        sockets&.each(&:close)
      end
    end
  end

  def check_user(server)
    with_manager do |manager, folder|
      FILES.each { |name, text| File.write(File.join(folder, name), text) }
      output = ruby(EXE, *server.words, "--user", "absent-name", env: { "APP_ENV" => "production", "RACK_ENV" => nil }, gems: true, chdir: folder)
      assert_equal [1, "gyre #{server.words.first}: there is no user absent-name\n"], [output.status.exitstatus, output.err]
      assert_empty Dir.children(folder).grep(/server/)
      assert_empty manager.told
    end
  end

  private

  # Yields the process, and a block that returns all that it has printed.
  def start(server, manager, folder)
    FILES.each { |name, text| File.write(File.join(folder, name), text) }
    printed = File.join(folder, "printed")
    environment = { "NOTIFY_SOCKET" => manager.path, "WATCHDOG_USEC" => "400000", "APP_ENV" => "production", "RACK_ENV" => nil }
    with_subprocess(*ruby_command(EXE, *server.words, env: environment, gems: true), chdir: folder, out: printed, err: %i[child out]) do |pid, _, _|
      yield pid, -> { File.read(printed) }
    end
  end

  def serves(server, manager, printed)
    eventually(what: "it serves: #{printed.call}") { printed.call.match?(server.serves) && manager.told.include?("READY=1") }
  end

  # Sends the signal, and waits for its line once more; a restart and a reload are told.
  def obeys(name, line, pid, manager, printed)
    before = printed.call.scan(line).size
    manager.told.clear
    Process.kill(name, pid)
    eventually(what: "#{line.inspect} after #{name}: #{printed.call}") { printed.call.scan(line).size > before }
    return unless [:HUP, :USR1, :USR2].include?(name) && !printed.call.match?(/#{name}: a .*(?:needs|is not)/)

    eventually(what: "what is told after #{name}") { manager.told.drop_while { |message| !message.start_with?("RELOADING=1") }.include?("READY=1") }
  end

  def measured(server, printed)
    return unless server.metrics?

    url = printed.call[%r{metrics on (http://[\d.:]+)}, 1]
    eventually(what: "metrics") { Net::HTTP.get(URI("#{url}/metrics")).match?(/^gyre_\w+/) }
  end

  def file(folder, name)
    File.read(File.join(folder, name))
  rescue Errno::ENOENT
    nil
  end
end
