# frozen_string_literal: true

# What a cluster does when one of its processes is killed, whatever it is doing at the moment.

require "fileutils"
require "test_helper"
require_relative "clusters"

class ClusterKillsTest < Minitest::Test
  include GyreTest::Clusters

  def test_a_killed_worker_is_replaced_and_a_killed_mold_as_well
    cluster("-w", "2") do |cluster, program|
      victim = cluster.pids("worker 1").first
      Process.kill(:KILL, victim)
      program.expect(/worker 1 \(process #{victim}\) was ended by SIGKILL; another one starts/, :err)
      eventually { (cluster.pids("worker 1") - [victim]).any? }
      workers = cluster.pids("worker").sort
      mold = cluster.pids("mold").first
      Process.kill(:KILL, mold)
      program.expect(/the mold \(process #{mold}\) was ended by SIGKILL; another one starts, the workers go on/, :err)
      eventually { (cluster.pids("mold") - [mold]).any? }
      assert_equal workers, cluster.pids("worker").sort
      cluster.restart(:USR1, "Rolling") # the new mold forks
    end
  end

  def test_when_the_supervisor_is_killed_the_workers_finish_their_requests_and_leave
    cluster("-w", "2") do |cluster, program|
      slow = program.request("/wait")
      program.expect(/^waiting$/)
      processes = cluster.children
      port = program.port
      Process.kill(:KILL, program.pid)
      program.expect(/the supervisor has gone; this worker finishes its requests and ends/, :err, orphans: true)
      go(program)
      assert_match(/ 1\z/, slow.read)
      slow.close
      eventually { processes.all? { |pid| GyreTest::Processes.ended?(pid) } }
      assert_raises(Errno::ECONNREFUSED) { TCPSocket.new("127.0.0.1", port) }
    end
  end

  # The fresh program of a hot restart, or its rehearsal, waits within its configuration.
  HELD = <<~'RUBY'
    if defined?(GYRE_EARLY_SIGNALS) && ARGV.include?("--check") == File.exist?("rehearsal")
      File.write("held", "")
      sleep(0.005) until File.exist?("released")
    end
  RUBY

  def test_a_worker_that_is_killed_while_the_program_changes_is_replaced
    cluster("-w", "2", "-C", "gyre.rb", files: { "gyre.rb" => HELD }) do |cluster, program|
      before = cluster.pids("worker")
      cluster.code = "2"
      program.signal(:USR2)
      eventually { File.exist?(File.join(program.folder, "held")) }
      Process.kill(:KILL, before.first)
      assert_equal "1", cluster.get.last, "the other one serves meanwhile"
      FileUtils.touch(File.join(program.folder, "released"))
      program.expect(/^Hot restart: all workers run the new code$/)
      eventually { cluster.children.size == 3 }
      assert_empty before & cluster.pids("worker")
      assert_equal "2", cluster.get.last
      program.signal(:TERM)
      assert_equal 0, program.status.exitstatus
    end
  end

  def test_when_the_supervisor_is_killed_while_the_program_changes_the_workers_finish_and_leave = check_workers_finish_and_leave({})

  def test_when_the_supervisor_is_killed_while_the_program_is_rehearsed_the_workers_finish_and_leave
    check_workers_finish_and_leave({ "rehearsal" => "" })
  end

  def check_workers_finish_and_leave(files)
    cluster("-w", "2", "-C", "gyre.rb", files: { "gyre.rb" => HELD, **files }) do |cluster, program|
      slow = program.request("/wait")
      program.expect(/^waiting$/)
      processes = cluster.children
      program.signal(:USR2)
      eventually { File.exist?(File.join(program.folder, "held")) }
      Process.kill(:KILL, program.pid)
      program.expect(/the supervisor has gone; this worker finishes its requests and ends/, :err, orphans: true)
      go(program)
      assert_match(/ 1\z/, slow.read)
      slow.close
      eventually { processes.all? { |pid| GyreTest::Processes.ended?(pid) } }
      FileUtils.touch(File.join(program.folder, "released"))
    end
  end
end
