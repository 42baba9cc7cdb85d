# frozen_string_literal: true

# The one life of every server: what each prints, tells a service manager and does at a signal, and
# what it does with its pidfile. The servers are rows of a table.

require "test_helper"
require "support/manager"
require "support/processes"

class LifetimeServersTest < Minitest::Test
  include GyreTest::WithManager

  # The command's words, what it prints when it serves, what it prints at HUP, and the signals that
  # ask for what it does not have.
  Server = Struct.new(:words, :serves, :reloads, :absent)
  SERVERS = {
    web: Server.new(%w[serve -w 0 -b tcp://127.0.0.1:0 --pidfile server.pid], /Use Ctrl-C to stop/, /HUP: nothing is opened or loaded again/,
      %i[USR1 USR2 TTIN TTOU]),
    web_with_workers: Server.new(%w[serve -w 1 -b tcp://127.0.0.1:0 --pidfile server.pid], /Use Ctrl-C to stop/, /HUP: the workers open their log/,
      []),
    log: Server.new(%w[log -p 0 -w server.pid], /^gyre log: listens on tcp:.*process \d+$/, /^gyre log: reopened 1 file \(HUP\)$/,
      %i[USR1 TTIN TTOU]),
    dns: Server.new(%w[dns -c rules.rb -b 127.0.0.1:0 --pidfile server.pid], /^gyre dns: listens on .*process \d+$/,
      /^gyre dns: rules and zones are read again$/, %i[USR1 USR2 TTIN TTOU]),
    dns_with_workers: Server.new(%w[dns -c rules.rb -b 127.0.0.1:0 -w 1 --pidfile server.pid], /^gyre dns: listens on .*with 1 workers$/,
      /^gyre dns: rules and zones are read again$/, %i[USR2 TTIN TTOU])
  }.freeze
  FILES = { "config.ru" => "run ->(_env) { [200, {}, ['hello']] }\n", "rules.rb" => "match('a.test') { |t| t.respond!('192.0.2.1') }\n" }.freeze

  SERVERS.each_key { |name| define_method(:"test_the_life_of_a_server_#{name}") { check_life(SERVERS.fetch(name)) } }

  def check_life(server)
    with_manager do |manager, folder|
      start(server, manager, folder) do |pid, printed|
        eventually(what: "it serves: #{printed.call}") { printed.call.match?(server.serves) && manager.told.include?("READY=1") }
        assert_equal "#{pid}\n", pidfile(folder)
        eventually { manager.told.include?("WATCHDOG=1") && manager.told.grep(/\ASTATUS=/).any? }
        Process.kill(:QUIT, pid)
        eventually(what: "the tasks: #{printed.call}") { printed.call.include?("tasks of process #{pid}:") }
        server.absent.each do |name|
          Process.kill(name, pid)
          line = /^(?:gyre \w+: )?#{name}: a .* (?:needs workers|is not possible)/
          eventually(what: "a line about #{name}: #{printed.call}") { printed.call.match?(line) }
        end
        manager.told.clear
        Process.kill(:HUP, pid)
        eventually(what: "the reload: #{printed.call}") do
          printed.call.match?(server.reloads) && manager.told.drop_while { |message| !message.start_with?("RELOADING=1") }.include?("READY=1")
        end
        Process.kill(:TERM, pid)
        assert_equal 0, Process.wait2(pid).last.exitstatus, printed.call
        assert_equal 1, manager.told.count("STOPPING=1")
        assert_nil pidfile(folder)
      end
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

  def pidfile(folder)
    File.read(File.join(folder, "server.pid"))
  rescue Errno::ENOENT
    nil
  end
end
