# frozen_string_literal: true

# A mold has a time for all that it does, and an app that reaps its children does not hinder it; a
# restart with code that does not stay up has an end.

require "test_helper"
require_relative "clusters"

class ClusterMoldTest < Minitest::Test
  include GyreTest::Clusters

  def test_code_that_hangs_while_it_loads_fails_the_restart_and_the_next_one_works
    app = "sleep if File.exist?('hang')\n#{APP}"
    cluster_with_a_limit("-w", "1", app: app) do |cluster, program, limit_s|
      File.write(File.join(program.folder, "hang"), "")
      program.signal(:USR1)
      program.expect(/the mold \(process \d+\) did not load the app within #{limit_s} s \(load_timeout\); it is killed$/, :err)
      program.expect(/Rolling restart: the new code does not load, the workers of before go on: was killed, for it did not load/, :err)
      File.unlink(File.join(program.folder, "hang"))
      cluster.code = "2"
      cluster.restart(:USR1, "Rolling")
      assert_equal "2", cluster.get.last
      cluster.await_one_mold_and(1)
    end
  end

  # A link's end alone would be noticed only after the load; the app's at_exit blocks run.
  def test_a_server_ends_at_once_while_its_app_loads
    app = "at_exit { File.write('left', '') }\nputs 'loading'\nsleep\n"
    serve("-w", "1", app: app, ready: /^loading$/) do |program|
      program.signal(:TERM)
      assert_equal 0, program.status.exitstatus
      refute_match(/does not end/, program.text(:err))
      assert_path_exists File.join(program.folder, "left")
    end
  end

  def test_a_mold_that_hangs_at_a_fork_is_replaced
    config = "before_fork { sleep if File.exist?('hang') && File.unlink('hang') }\n"
    cluster_with_a_limit("-w", "1", "-C", "gyre.rb", files: { "gyre.rb" => config }) do |cluster, program, limit_s|
      worker = cluster.get.first
      File.write(File.join(program.folder, "hang"), "")
      Process.kill(:KILL, worker)
      program.expect(/the mold \(process \d+\) did not fork a worker within #{limit_s} s \(worker_boot_timeout\); it is killed$/, :err)
      refute_equal worker, eventually { cluster.get.first }
      cluster.await_one_mold_and(1)
    end
  end

  def test_a_restart_ends_when_later_workers_do_not_start_and_the_repaired_code_follows
    config = "after_fork { |number| raise 'no connection left' if number == 2 && File.read('code') == '2' }\n"
    cluster("-w", "2", "-C", "gyre.rb", files: { "gyre.rb" => config, "code" => "1" }) do |cluster, program|
      cluster.code = "2"
      program.signal(:USR1)
      program.expect(/Rolling restart: workers with the new code end, and the others keep that of before: worker 2 .*no connection left/, :err)
      cluster.code = "3"
      cluster.restart(:USR1, "Rolling")
      eventually { Array.new(10) { cluster.get.last }.uniq == ["3"] }
    end
  end

  def test_the_reason_of_a_worker_that_has_ended_before_its_message_was_read_is_kept
    config = <<~'RUBY'
      after_fork do |number|
        next unless number == 2 && File.read("code") == "2"
        Process.kill(:STOP, Integer(File.read("supervisor")))
        raise "no connection left"
      end
    RUBY
    cluster("-w", "2", "-C", "gyre.rb", files: { "gyre.rb" => config, "code" => "1" }) do |cluster, program|
      File.write(File.join(program.folder, "supervisor"), program.pid.to_s)
      cluster.code = "2"
      program.signal(:USR1)
      eventually(what: "the restart's end") do
        stopped = File.read("/proc/#{program.pid}/stat")[/\) (\S)/, 1] == "T"
        program.signal(:CONT) if stopped && cluster.children.any? { |pid| GyreTest::Processes.ended?(pid) }
        program.text(:err)[/Rolling restart: (.*)/, 1]
      end
      assert_match(/Rolling restart: workers with the new code end.*: worker 2 .*no connection left/, program.text(:err))
      refute_match(/ended with status/, program.text(:err))
    ensure
      program.signal(:CONT)
    end
  end

  def test_a_restart_ends_when_the_new_code_cannot_be_forked_and_the_repaired_code_follows
    config = "before_fork { raise 'no fork' if File.read('code') == '2' }\n"
    cluster("-w", "1", "-C", "gyre.rb", files: { "gyre.rb" => config, "code" => "1" }) do |cluster, program|
      cluster.code = "2"
      program.signal(:USR1)
      program.expect(/Rolling restart: a worker with the new code does not start, the former workers stay: worker 1 was not forked: .*no fork/, :err)
      assert_equal "1", cluster.get.last
      cluster.code = "3"
      cluster.restart(:USR1, "Rolling")
      assert_equal "3", cluster.get.last
      cluster.await_one_mold_and(1)
    end
  end

  def test_an_app_that_ignores_sigchld_is_served
    check_app_is_served("trap('CHLD', 'IGNORE')")
  end

  def test_an_app_that_reaps_in_a_trap_is_served
    check_app_is_served("trap('CHLD') { begin; nil while Process.wait(-1, Process::WNOHANG); rescue Errno::ECHILD; end }")
  end

  def test_an_app_that_reaps_in_a_thread_is_served
    check_app_is_served("Thread.new { loop { Process.wait(-1) rescue sleep(0.001) } }")
  end

  def check_app_is_served(line)
    cluster("-w", "1", app: "#{line}\n#{APP}") { |cluster, _| assert_equal "1", cluster.get.last }
  end

  def test_workers_that_are_born_beyond_their_memory_limit_are_replaced_more_and_more_rarely
    cluster("-w", "1", "--worker-memory-limit", "1M") do |_, program|
      program.expect(/has \d+ MB of memory, more than 1 MB; .*; the limit is too small for this app: .*; the next try is in 1\.0 s$/, :err)
      assert_match(/; the next try is in 0\.5 s$/, program.text(:err))
    end
  end
end
