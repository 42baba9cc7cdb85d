# frozen_string_literal: true

# Programs beside the workers: they run as long as the server does, start again when they end, and
# follow restarts.

require "test_helper"
require_relative "clusters"

class ClusterProgramTest < Minitest::Test
  include GyreTest::Clusters

  JOBS = <<~'SH'
    #!/bin/sh
    trap 'echo "jobs end $$"; exit 0' TERM
    echo "jobs begin $$ in $(pwd)"
    while :; do sleep 0.02; done
  SH

  def test_it_runs_beside_the_workers_starts_again_when_it_ends_and_ends_with_the_server
    with_jobs("--beside", "./jobs", "-w", "1", "--state", "s") do |cluster, program|
      first = begun(program, 1)
      assert_equal first, Process.getpgid(first), "signals of a terminal are not for it"
      Process.kill(:KILL, first)
      program.expect(%r{\./jobs \(process #{first}\) was ended by SIGKILL; it is started again$}, :err)
      second = begun(program, 2)
      assert_includes ruby(EXE, "ctl", "--state", "s", "status", chdir: program.folder).out, "./jobs: process #{second}\n"
      assert_equal "1", cluster.get.last
      program.signal(:TERM)
      assert_equal 0, program.status.exitstatus
      assert_includes program.text(:out), "jobs end #{second}\n"
    end
  end

  def test_it_is_replaced_when_a_restart_has_brought_other_code
    config = ->(more) { "workers 1\nbind 'tcp://127.0.0.1:0'\n#{more}" }
    with_jobs("-C", "gyre.rb", port: false, files: { "gyre.rb" => config["beside './jobs'"] }) do |cluster, program|
      first = begun(program, 1)
      cluster.code = "broken"
      program.signal(:USR1)
      program.expect(/Rolling restart: the new code does not load/, :err)
      refute_includes program.text(:out), "jobs end"
      cluster.code = "2"
      cluster.restart(:USR1, "Rolling")
      program.expect(/^jobs end #{first}$/)
      second = begun(program, 2)
      cluster.restart(:USR2, "Hot")
      program.expect(/^jobs end #{second}$/)
      third = begun(program, 3)
      File.write(File.join(program.folder, "gyre.rb"), config[""])
      cluster.restart(:USR2, "Hot")
      program.expect(/^jobs end #{third}$/)
      assert_equal 3, program.text(:out).scan("jobs begin").size
    end
  end

  def test_a_program_that_does_not_end_is_killed_with_its_children
    stubborn = "#!/bin/sh\ntrap '' TERM\nsleep 100 &\necho \"jobs begin $! in here\"\nwait\n"
    with_jobs("--beside", "./jobs", "-w", "1", "--shutdown-timeout", "0.1", jobs: stubborn) do |_, program|
      started = begun(program, 1)
      program.signal(:TERM)
      assert_equal 0, program.status.exitstatus
      program.expect(%r{\./jobs \(process \d+\) does not end; it is killed$}, :err)
      eventually { GyreTest::Processes.ended?(started) }
    end
  end

  def test_the_variable_of_solid_queues_plugin_for_puma_means_its_program_and_a_worker
    with_jobs(name: "bin/jobs", env: { "SOLID_QUEUE_IN_PUMA" => "1" }) do |cluster, program|
      begun(program, 1)
      assert_equal 1, cluster.pids("worker").size
    end
  end

  def test_a_missing_program_is_found_first
    output = gyre("serve", "--beside", "bin/jobs --now", "-w", "1")
    assert_equal [1, "gyre serve: beside: there is no program bin/jobs\n"], [output.status.exitstatus, output.err]
    output = gyre("serve", "--beside", "true", "-w", "0", "--check", "app.rb", files: { "app.rb" => "" })
    assert_equal [1, "gyre serve: beside: true needs workers, which are 0: take 1 or more\n"], [output.status.exitstatus, output.err]
    assert_match(/--beside: must be a command like "bin.jobs", not ""/, gyre("serve", "--beside", "").err)
  end

  private

  def with_jobs(*flags, name: "jobs", jobs: JOBS, files: {}, **options, &block)
    cluster(*flags, files: { name => jobs, **files }, **options, &block)
  end

  def begun(program, nth)
    eventually(what: "jobs begun #{nth} times") { program.text(:out).scan(/^jobs begin (\d+)/)[nth - 1] }.first.to_i
  end
end
