# frozen_string_literal: true

# `gyre profile` at servers with and without workers.

require "test_helper"
require "support/with_profiles"
require "cluster/clusters"
require "gyre/cli"
require "gyre/profile"
require "support/pprof"

class CLIProfileTest < Minitest::Test
  include GyreTest::WithProfiles
  include GyreTest::Clusters

  APP = <<~'RUBY'
    def compute = 200_000.times { |number| Integer.sqrt(number) }
    run(lambda do |env|
      (compute && sleep(0.001) until File.exist?("go")) if env["PATH_INFO"] == "/compute"
      [200, {}, [Process.pid.to_s]]
    end)
  RUBY

  def test_the_profiles_of_all_workers_become_one_file
    cluster("-w", "2", app: APP) do |cluster, program|
      busy = cluster.pids("worker").map { |pid| computing_in(program, pid) }
      out, err = Dir.chdir(program.folder) { gyre_here("profile", "0.5") }
      path = out[/\Aprofile-\d{8}-\d{6}\.pb\.gz(?=: \d\.\d\d s of CPU time in \d\.\d s\n\z)/] or flunk(err)
      file = GyreTest::Pprof.read(File.binread("#{program.folder}/#{path}"))
      assert file.samples.any? { |sample| sample.stack.any? { |frame| frame.name.end_with?("compute") && frame.path.end_with?("config.ru") } }
      one_dies(cluster, program)
      all_leave(cluster, program)
      busy.each(&:close)
    end
  end

  def test_a_server_without_workers_has_a_control_socket_beside_its_state_file
    serve("--state", "s.state", app: APP) do |program|
      computing = program.request("/compute")
      assert_match(%r{^/compute;.*compute \(}, profile(program, "0.8", "--format", "collapsed", "-o", "-").first)
      flames = "#{program.folder}/flames.html"
      assert_equal ["#{flames}: ", ""], profile(program, "0.1", "-o", flames).map { |text| text[/\A.*?: |\A/] }
      assert_match(%r{<script id="data".*"Gyre::}, File.read(flames))
      assert_match(/^worker 0: process #{program.pid}, serving/, gyre_here("ctl", "-S", state(program), "status").first)
      assert_equal "gyre ctl: restart: needs workers: start the server with --workers 1 or more\n",
                   gyre_here("ctl", "-S", state(program), "restart").last
      ends_with_its_client(program)
      go(program)
      computing.close
      stop = Thread.new { gyre_here("ctl", "-S", state(program), "stop") }
      program.status
      assert_equal ["stop: done\n", ""], stop.value
      refute_path_exists state(program)
    end
  end

  def test_mistakes_are_plain_lines
    { [] => "SECONDS is missing", %w[x] => "SECONDS: ", %w[-1] => "-1: unknown flag", %w[--format svg 1] => "--format svg: ",
      %w[1 2] => "unexpected argument 2",
      %w[60 -o /none/p.html] => "--output: there is no folder /none ", %w[1 -S none] => "there is no " }.each do |words, text|
      assert_match(/\Agyre profile: #{Regexp.escape(text)}/, gyre_here("profile", *words).last, words.inspect)
    end
  end

  private

  # Returns what the command prints, here in the tests' process.
  def gyre_here(*words)
    out, err = StringIO.new, StringIO.new
    Gyre::CLI.start(words, out: out, err: err)
    [out.string, err.string]
  end

  def state(program) = "#{program.folder}/s.state"

  def profile(program, *words) = gyre_here("profile", *words, "-S", state(program))

  # Connects until the request is in the worker.
  def computing_in(program, pid)
    socket = eventually do
      candidate = TCPSocket.new("127.0.0.1", program.port)
      candidate.write("GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
      candidate.readpartial(1000).end_with?(pid.to_s) ? candidate : candidate.close
    end
    socket.tap { program.request("/compute", socket: socket) }
  end

  def one_dies(cluster, program)
    victim = cluster.pids("worker 1").first
    path = "#{program.folder}/x.txt"
    thread = Thread.new { gyre_here("profile", "1.2", "-o", path, "-S", "#{program.folder}/tmp/gyre.state") }
    eventually { sampled?(victim) }
    Process.kill(:KILL, victim)
    out, err = thread.value
    assert_operator out, :start_with?, "#{path}: "
    assert_equal "gyre profile: worker 1 ended meanwhile; its samples are missing\n", err
  end

  # A rolling restart ends the profile early: each worker sends what it has when it leaves.
  def all_leave(cluster, program)
    path = "#{program.folder}/left.txt"
    cluster.await_one_mold_and(2)
    thread = Thread.new { gyre_here("profile", "600", "-o", path, "-S", "#{program.folder}/tmp/gyre.state") }
    eventually { cluster.pids("worker").all? { |pid| sampled?(pid) } }
    go(program)
    cluster.restart("USR1", "Rolling")
    out, err = thread.value
    assert_equal "", err
    assert_match(/\A#{path}: .* in \d{1,2}\.\d s\n\z/, out)
    assert_match(%r{^/compute;}, File.read(path))
  end

  # A second one is refused until the first one's client has gone.
  def ends_with_its_client(program)
    with_subprocess(*ruby_command(EXE, "profile", "600", "-S", "s.state"), chdir: program.folder) do |pid|
      eventually { sampled?(program.pid) }
      assert_equal "gyre profile: another profile is being taken\n", profile(program, "1").last
      Process.kill(:KILL, pid)
    end
    eventually { profile(program, "0.01", "-o", "-").last.empty? }
  end

  # The sampler's thread blocks all signals.
  def sampled?(pid)
    Dir["/proc/#{pid}/task/*/status"].any? { |path| File.read(path)[/^SigBlk:\s*(\h+)/, 1].to_i(16).digits(2).count(1) > 50 }
  rescue Errno::ENOENT
    false
  end
end
