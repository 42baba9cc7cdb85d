# frozen_string_literal: true

# USR2 never ends a server: a program that could not serve is found before the old one is given up,
# and one that can takes over sockets and files, by whatever name.

require "json"
require "test_helper"
require_relative "clusters"

class ClusterHotRestartTest < Minitest::Test
  include GyreTest::Clusters

  BASE = "workers 1\nbind 'tcp://127.0.0.1:0'\n"

  def test_a_program_that_could_not_serve_is_not_changed_to
    taken = TCPServer.new("127.0.0.1", 0)
    in_use = "127.0.0.1:#{taken.local_address.ip_port}"
    configured do |cluster, program|
      before = cluster.children.sort
      { "bind 'tcp://#{in_use}'" => /listen on tcp:\S+ address already in use/,
        "metrics '#{in_use}'" => /listen on tcp:\S+ address already in use/,
        "state 'gone/s'" => /state: there is no folder/,
        "pidfile 'gone/p'" => /pidfile: there is no folder/,
        "access_log 'file/a'" => /access_log: there is no folder/,
        "user 'absent-name'" => /there is no user absent-name/,
        "tls cert: 'none', key: 'none'" => /none/,
        "ENV['GYRE_BACKEND'] = 'none'" => /GYRE_BACKEND: /,
        "raise 'no such thing'" => /no such thing/,
        "exit!(3) if ARGV.include?('--check')" => /the new program ended with status 3/ }.each do |line, reason|
        configure(program, line)
        program.signal(:USR2)
        program.expect(/Hot restart: (?!.*Hot restart).*#{reason}/m, :err)
        program.text(:err).clear
      end
      eventually { cluster.children.sort == before }
      assert_equal "1", cluster.get.last
      configure(program, "")
      cluster.restart(:USR2, "Hot")
      assert_equal "1", cluster.get.last
    end
  ensure
    taken&.close
  end

  def test_other_files_and_addresses_are_taken_and_those_of_before_go
    configured("bind 'unix://one.sock'\npidfile 'one.pid'\nstate 'one.state'") do |cluster, program|
      configure(program, "bind 'unix://two.sock'\npidfile 'two.pid'\nstate 'two.state'\nmetrics 'unix://metrics.sock'")
      cluster.restart(:USR2, "Hot")
      assert_equal %w[metrics.sock two.pid two.sock two.state two.state.sock], Dir.children(program.folder).grep(/one|two|metrics/).sort
      assert_match(/ 1\z/, program.get("/", socket: UNIXSocket.new(File.join(program.folder, "two.sock"))))
      assert_equal program.pid, File.read(File.join(program.folder, "two.pid")).to_i
      assert_equal program.pid, JSON.parse(File.read(File.join(program.folder, "two.state")))["pid"]
      configure(program, "")
      cluster.restart(:USR2, "Hot")
      assert_empty Dir.children(program.folder).grep(/one|two|metrics/)
    end
  end

  # It would also keep the server's port from the next one.
  def test_a_program_that_the_configuration_starts_holds_up_nothing_and_inherits_nothing
    configured do |cluster, program|
      configure(program, "File.write('stays', spawn('exec sleep 60').to_s + \"\\n\", mode: 'a')")
      cluster.restart(:USR2, "Hot")
      stays = File.readlines(File.join(program.folder, "stays")).map(&:to_i)
      assert_operator stays.size, :>=, 2
      stays.each { |pid| assert_empty open_files(pid).grep(/socket:/) }
    ensure
      stays&.each { |pid| Process.kill(:KILL, pid) }
    end
  end

  # The child holds the listening sockets, so the port would stay taken.
  def test_a_rehearsal_ends_with_the_server
    configured do |_, program|
      configure(program, "if ARGV.include?('--check')\n  File.write('rehearses', \"\#{Process.pid}\\n\")\n  sleep\nend")
      program.signal(:USR2)
      path = File.join(program.folder, "rehearses")
      pid = eventually { File.read(path)[/\A\d+(?=\n)/] if File.exist?(path) }
      waiting = program.request("/wait")
      program.expect(/^waiting$/)
      program.signal(:TERM)
      eventually(what: "the rehearsal's end") { GyreTest::Processes.ended?(pid.to_i) }
      go(program)
      assert_match(/ 1\z/, waiting.read)
      assert_equal 0, program.status.exitstatus
    ensure
      waiting&.close
    end
  end

  def test_a_mold_that_takes_its_time_to_leave_holds_up_nothing_and_is_ended
    app = "loaded_by = Process.pid\nat_exit { sleep if Process.pid == loaded_by && File.exist?('slow') }\n#{APP}"
    configured(app: app, files: { "slow" => "" }) do |cluster, program|
      cluster.restart(:USR1, "Rolling")
      cluster.restart(:USR2, "Hot")
      File.unlink(File.join(program.folder, "slow"))
      program.expect(/the mold \(process \d+\) does not end; it is killed/, :err)
      cluster.await_one_mold_and(1)
    end
  end

  def test_a_restart_that_is_asked_for_during_another_one_follows_it
    app = "sleep 0.005 until !File.exist?('held') || File.exist?('released')\n#{APP}"
    configured(app: app) do |cluster, program|
      File.write(File.join(program.folder, "held"), "")
      program.signal(:USR1)
      program.expect(/^Rolling restart: the new code is being loaded$/)
      program.signal(:USR1)
      program.expect(/^Rolling restart: it begins when the present one is over$/)
      program.signal(:USR2)
      program.expect(/^Hot restart: it begins when the present one is over$/)
      cluster.code = "2"
      File.write(File.join(program.folder, "released"), "")
      program.expect(/^Rolling restart: all workers run the new code$.*^Hot restart: all workers run the new code$/m)
      assert_equal "2", cluster.get.last
      assert_equal 1, program.text(:out).scan("Rolling restart: all workers run the new code").size
    end
  end

  private

  def configured(more = "", app: APP, files: {}, &block)
    cluster("-C", "gyre.rb", port: false, app: app, files: { "gyre.rb" => "#{BASE}#{more}\n", **files }, &block)
  end

  def configure(program, more) = File.write(File.join(program.folder, "gyre.rb"), "#{BASE}#{more}\n")

  def open_files(pid)
    Dir.children("/proc/#{pid}/fd").filter_map { |name| File.readlink("/proc/#{pid}/fd/#{name}") rescue nil }
  end
end
