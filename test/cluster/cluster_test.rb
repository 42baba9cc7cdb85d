# frozen_string_literal: true

# `gyre serve --workers` as processes: what starts, what is replaced, what a restart does, and how
# all of it ends.

require "json"
require "test_helper"
require_relative "clusters"

class ClusterTest < Minitest::Test
  include GyreTest::Clusters

  # What Active Record has of it.
  POOL = <<~'RUBY'
    module ActiveSupport
      module IsolatedExecutionState
        def self.isolation_level = :fiber
      end
    end
    module ActiveRecord
      def self.version = Gem::Version.new("8.1")

      class Base
        def self.connection_handler = self
        def self.connection_pool_list(_role) = [Struct.new(:size).new(3)]
      end
    end
  RUBY

  def test_workers_serve_from_one_load_of_the_app_and_end_with_term
    cluster("-w", "2") do |cluster, program|
      assert_match(/process #{program.pid} with 2 workers$/, program.text(:out))
      assert_equal 2, cluster.pids("worker").size
      assert_equal 1, cluster.pids("mold").size
      assert_includes cluster.pids("worker"), cluster.get.first
      slow = program.request("/wait")
      program.expect(/^waiting$/)
      processes = cluster.children
      program.signal(:TERM)
      program.expect(/^Stopping\. Requests may finish/)
      eventually { refused?(program.port) }
      go(program)
      assert_match(/ 1\z/, slow.read)
      slow.close
      assert_equal 0, program.status.exitstatus
      assert_empty(processes.select { |pid| File.exist?("/proc/#{pid}") })
      assert_equal "", program.text(:err)
    end
  end

  def test_a_second_term_ends_running_requests_at_once
    cluster("-w", "2", "--shutdown-timeout", "300") do |_, program|
      slow = program.request("/wait")
      program.expect(/^waiting$/)
      program.signal(:TERM)
      program.expect(/^Stopping\. /)
      program.signal(:TERM)
      assert_equal 0, program.status.exitstatus
      slow.close
    end
  end

  def test_a_touched_file_restarts_the_workers
    cluster("-w", "1", "--restart-file", "restart.txt") do |cluster, program|
      assert_equal "1", cluster.get.last
      cluster.code = "2"
      File.write(File.join(program.folder, "restart.txt"), "")
      program.expect(/Rolling restart: all workers run the new code/)
      assert_equal "2", cluster.get.last
    end
  end

  def test_a_rolling_restart_loads_the_new_code_and_keeps_running_requests
    cluster("-w", "2") do |cluster, program|
      assert_equal "1", cluster.get.last
      slow = program.request("/wait")
      program.expect(/^waiting$/)
      cluster.code = "2"
      before = cluster.pids("worker")
      program.signal(:USR1)
      eventually { cluster.get.last == "2" }
      go(program)
      assert_match(/ 1\z/, slow.read)
      slow.close
      program.expect(/^Rolling restart: all workers run the new code$/)
      assert_empty before & cluster.pids("worker")
      cluster.await_one_mold_and(2)
    end
  end

  def test_code_that_does_not_load_changes_nothing_and_the_reason_is_logged
    cluster("-w", "2") do |cluster, program|
      before = cluster.children.sort
      cluster.code = "broken"
      program.signal(:USR1)
      program.expect(/Rolling restart: the new code does not load, the workers of before go on: .*config\.ru:2:.*the new code is broken/m, :err)
      eventually { cluster.children.sort == before }
      assert_equal "1", cluster.get.last
      cluster.code = "2"
      cluster.restart(:USR1, "Rolling")
      assert_equal "2", cluster.get.last
    end
  end

  def test_a_hot_restart_keeps_process_sockets_and_running_requests
    cluster("-w", "2", "-b", "unix://app.sock", "--pidfile", "app.pid") do |cluster, program|
      port = program.port
      slow = program.request("/wait")
      program.expect(/^waiting$/)
      cluster.code = "2"
      program.signal(:USR2)
      eventually { cluster.get.last == "2" }
      go(program)
      assert_match(/ 1\z/, slow.read)
      slow.close
      program.expect(/^Hot restart: all workers run the new code$/)
      assert_match(/ 2\z/, program.get("/", socket: TCPSocket.new("127.0.0.1", port)))
      socket = File.join(program.folder, "app.sock")
      assert_match(/ 2\z/, program.get("/", socket: UNIXSocket.new(socket)))
      assert_equal program.pid, File.read(File.join(program.folder, "app.pid")).to_i
      program.signal(:TERM)
      assert_equal 0, program.status.exitstatus
      refute_path_exists socket
      refute_path_exists File.join(program.folder, "app.pid")
    end
  end

  def test_a_program_that_would_not_start_is_not_changed_to
    cluster("-w", "2", "-C", "gyre.rb", files: { "gyre.rb" => "" }) do |cluster, program|
      before = cluster.children.sort
      File.write(File.join(program.folder, "gyre.rb"), "no_such_setting")
      program.signal(:USR2)
      program.expect(/Hot restart: gyre\.rb:1: no_such_setting: unknown setting/, :err)
      eventually { cluster.children.sort == before }
      assert_equal "1", cluster.get.last
    end
  end

  def test_a_restart_that_fails_in_an_unforeseen_way_changes_nothing_and_the_next_one_is_possible
    config = <<~'RUBY'
      require "gyre/cli/process/successor"
      Gyre::CLI::Successor.prepend(Module.new { def exec(*) = raise(ArgumentError, "no such program") })
    RUBY
    cluster("-w", "1", "-C", "gyre.rb", "--pidfile", "app.pid", files: { "gyre.rb" => config }) do |cluster, program|
      program.signal(:USR2)
      program.expect(/Hot restart: no such program \(ArgumentError\)$/, :err)
      cluster.code = "2"
      cluster.restart(:USR1, "Rolling")
      assert_equal "2", cluster.get.last
      program.signal(:TERM)
      assert_equal 0, program.status.exitstatus
      refute_path_exists File.join(program.folder, "app.pid")
    end
  end

  def test_a_worker_that_hangs_before_it_serves_takes_a_restart_back
    config = %(after_fork { sleep if File.read("code") == "2" }\n)
    cluster_with_a_limit("-w", "2", "-C", "gyre.rb", files: { "gyre.rb" => config, "code" => "1" }) do |cluster, program, limit_s|
      before = cluster.children.sort
      cluster.code = "2"
      program.signal(:USR1)
      program.expect(/worker 1 \(process \d+\) did not start within #{limit_s} s \(worker_boot_timeout\); it is killed$/, :err)
      program.expect(/Rolling restart: a worker with the new code does not start, the former workers stay: .*was killed, for it did not start/, :err)
      eventually { cluster.children.sort == before }
      assert_equal "1", cluster.get.last
    end
  end

  def test_ttin_and_ttou_change_the_number_of_workers
    cluster("-w", "1") do |cluster, program|
      program.signal(:TTIN)
      program.expect(/^2 workers from now on$/)
      eventually { cluster.pids("worker 2").any? }
      program.signal(:TTOU)
      program.expect(/^1 worker from now on$/)
      eventually { cluster.pids("worker 2").empty? }
    end
  end

  def test_a_worker_that_is_stuck_prints_where_and_is_replaced
    cluster("-w", "1", "--worker-timeout", "1.5") do |cluster, program|
      victim = cluster.pids("worker").first
      stuck = program.request("/stuck")
      program.expect(/^tasks of process #{victim}:$/, :err)
      program.expect(/worker 1 \(process #{victim}\) gave no sign for 1\.5 s; it is killed/, :err)
      assert_equal "1", eventually { (cluster.pids("worker") - [victim]).any? && cluster.get.last }
      stuck.close
    end
  end

  def test_a_worker_with_too_much_memory_is_replaced_after_its_requests
    cluster("-w", "1", "--worker-memory-limit", "150M") do |cluster, program|
      victim = cluster.pids("worker").first
      slow = program.request("/wait")
      program.expect(/^waiting$/)
      cluster.get("/grow")
      program.expect(/worker 1 \(process #{victim}\) has \d+ MB of memory, more than 150 MB/, :err)
      eventually { cluster.get.first != victim }
      go(program)
      assert_match(/\A#{victim} /, slow.read[/\r\n\r\n(.*)/m, 1])
      slow.close
    end
  end

  # Ruby 3.4 may hang in a child before its first line; a library that hooks fork may as well.
  def test_a_worker_that_hangs_as_it_is_forked_is_killed_and_the_mold_goes_on
    hangs = <<~'HOOK'
      module Hangs
        def _fork
          super.tap do |pid|
            $forks = $forks.to_i + 1 if pid.zero?
            sleep if pid.zero? && $forks == 2 && File.exist?("hang") && File.delete("hang") == 1
          end
        end
      end
      Process.singleton_class.prepend(Hangs)
    HOOK
    cluster_with_a_limit("-w", "1", app: hangs + APP) do |cluster, program, limit_s|
      worker = cluster.get.first
      File.write(File.join(program.folder, "hang"), "")
      Process.kill(:KILL, worker)
      program.expect(/worker 1 \(process \d+\) did not start within #{limit_s} s \(worker_boot_timeout\); it is killed$/, :err)
      refute_equal worker, cluster.get.first
      assert_equal 1, cluster.pids("mold").size
    end
  end

  def test_quit_prints_the_tasks_of_all_workers
    cluster("-w", "2") do |cluster, program|
      program.signal(:QUIT)
      cluster.pids("worker").each { |pid| program.expect(/^tasks of process #{pid}:$/, :err) }
      assert_equal "1", cluster.get.last
    end
  end

  def test_an_app_that_does_not_load_ends_the_start_with_its_error
    serve("-w", "2", app: "raise 'no such thing'", ready: nil) do |program|
      assert_equal 1, program.status.exitstatus
      assert_match(/\Agyre serve: config\.ru raised while it was loaded:\n.*no such thing/m, program.text(:err))
      assert_equal "", program.text(:out)
    end
  end

  def test_hooks_run_at_their_moments_under_each_of_their_names
    config = <<~'RUBY'
      workers 1
      { before_worker_fork: "mold", on_worker_boot: "boot", before_fork: "before", after_fork: "after", after_worker_start: "start",
        before_worker_shutdown: "stopping", after_worker_stop: "stopped" }.each do |name, text|
        send(name) { |index| $stdout.write("#{text} #{index} #{Process.pid}\n") }
      end
    RUBY
    cluster("-C", "gyre.rb", files: { "gyre.rb" => config }) do |cluster, program|
      mold, worker = cluster.pids("mold").first, cluster.pids("worker").first
      program.expect(/^start/)
      program.signal(:TERM)
      program.status
      moments = program.text(:out).scan(/^(mold|boot|before|after|start|stopping|stopped) 1 (\d+)$/)
      assert_equal([["mold", mold], ["before", mold], ["boot", worker], ["after", worker], ["start", worker], ["stopping", worker],
                    ["stopped", worker]], moments.map { |text, pid| [text, pid.to_i] })
    end
  end

  def test_a_hook_that_raises_in_a_new_worker_takes_a_restart_back
    config = %(after_fork { raise "no database" if File.read("code") == "2" }\n)
    cluster("-w", "2", "-C", "gyre.rb", files: { "gyre.rb" => config, "code" => "1" }) do |cluster, program|
      before = cluster.children.sort
      cluster.code = "2"
      program.signal(:USR1)
      program.expect(/Rolling restart: a worker with the new code does not start, the former workers stay: .*no database/, :err)
      eventually { cluster.children.sort == before }
      assert_equal "1", cluster.get.last
    end
  end

  def test_ctl_asks_and_commands_over_a_socket_of_its_owner
    cluster("-w", "2", "--state", "s.state") do |cluster, program|
      folder = program.folder
      assert_equal([0o600, 0o600], %w[s.state s.state.sock].map { |name| File.stat(File.join(folder, name)).mode & 0o777 })
      assert_equal program.pid, JSON.parse(File.read(File.join(folder, "s.state")))["pid"]
      eventually { ctl(folder, "status").out.scan(/^worker \d: process \d+, serving .* requests/).size == 2 }
      assert_match(/^worker 1: process #{cluster.pids("worker 1").first}, serving/, ctl(folder, "status").out)
      cluster.code = "2"
      assert_equal "rolling-restart: done\n", ctl(folder, "rolling-restart").out
      assert_equal "2", cluster.get.last
      cluster.code = "broken"
      output = ctl(folder, "rolling-restart")
      assert_equal 1, output.status.exitstatus
      assert_match(/\Agyre ctl: rolling-restart: the new code does not load.*the new code is broken/m, output.err)
      cluster.code = "3"
      assert_equal "restart: done\n", ctl(folder, "restart").out
      assert_equal "3", cluster.get.last
      assert_equal "reload: done\n", ctl(folder, "reload").out
      reaper = Thread.new { program.status }
      assert_equal "stop: done\n", ctl(folder, "stop").out
      assert_equal 0, reaper.value.exitstatus
      assert_empty Dir[File.join(folder, "s.state*")]
      assert_match(/gyre ctl: there is no .*s\.state/, ctl(folder, "status").err)
      ["not JSON, and secret", "[]"].each do |text|
        File.write(File.join(folder, "s.state"), text)
        assert_match(/\Agyre ctl: .*s\.state is not a state file\. Name the file .*: --state FILE\n\z/, ctl(folder, "status").err)
      end
    end
  end

  def test_ctl_and_top_find_workers_that_were_started_without_a_state_file
    cluster("-w", "1") do |_, program|
      assert_match(/^worker 1: process \d+, /, ruby(EXE, "ctl", "status", chdir: program.folder).out)
      assert_match(/^gyre .* process #{program.pid} /, ruby(EXE, "top", "--once", chdir: program.folder).out)
      program.signal(:TERM)
      program.status
      assert_empty Dir["#{program.folder}/tmp/*"]
      assert_match(/gyre ctl: there is no .*, which a server with workers writes/, ruby(EXE, "ctl", "status", chdir: program.folder).err)
    end
  end

  def test_workers_serve_although_the_usual_state_file_cannot_be_there
    serve("-w", "1", files: { "tmp" => "a file" }) do |program|
      assert_match(%r{^no tmp/gyre\.state, so gyre ctl and gyre top need --state FILE: File exists}, program.text(:out))
      assert_match(/hello\z/, program.get("/"))
    end
    Dir.mktmpdir do |folder|
      File.chmod(0o777, folder)
      output = ruby("-e", 'require "gyre/cli/state_file"; Gyre::CLI::StateFile.usual', chdir: folder)
      assert output.status.success?, output.err # its tmp is for its owner alone
      File.chmod(0o777, "#{folder}/tmp")
      assert_match(/any user may write in/, ruby("-e", 'require "gyre/cli/state_file"; Gyre::CLI::StateFile.usual', chdir: folder).err)
    end
  end

  def test_workers_follow_the_pool_and_the_log_has_it_once
    serve("-w", "2", app: "#{POOL}\nrun ->(_env) { [200, {}, []] }") do |program|
      assert_equal 1, program.text(:out).scan(/^3 requests run at a time in each worker, as many as Active Record's pool has connections/).size
    end
    serve("-w", "1", "--requests-limit", "7", app: "#{POOL}\nrun ->(_env) { [200, {}, []] }") do |program|
      refute_match(/Active Record/, program.text(:out))
    end
  end

  def test_metrics_of_all_workers_are_served_by_the_supervisor_and_sums_outlive_workers
    cluster("-w", "2", "--metrics", "unix://metrics.sock") do |cluster, program|
      4.times { cluster.get }
      socket = File.join(program.folder, "metrics.sock")
      total = -> { program.get("/metrics", socket: UNIXSocket.new(socket))[/^gyre_http_requests_total (\d+)/, 1].to_i }
      eventually { total.call == 4 }
      cluster.restart(:USR1, "Rolling")
      assert_operator total.call, :>=, 4
    end
  end

  private

  def ctl(folder, *words) = ruby(EXE, "ctl", "--state", "s.state", *words, chdir: folder)

  # A SYN that comes before the workers have heard of the end is dropped.
  def refused?(port)
    Socket.tcp("127.0.0.1", port, connect_timeout: 0.05).close
  rescue Errno::ECONNREFUSED
    true
  rescue Errno::ETIMEDOUT
    false
  end
end
