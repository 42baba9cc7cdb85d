# frozen_string_literal: true

# `gyre serve` in processes of its own with clients of HTTP/2: streams that run during a stop and a
# rolling restart are finished, and no request of a load is lost.

require "test_helper"
require "http/h2/serving"
require "web/serving"

class H2ServeTest < Minitest::Test
  include GyreTest::Serving

  APP = <<~'RUBY'
    code = File.read("code")
    run(lambda do |env|
      if env["PATH_INFO"] == "/wait"
        puts "waiting"
        sleep 0.005 until File.exist?("go")
      end
      puts "loaded" if env["PATH_INFO"] == "/load" && ($count = $count.to_i + 1) == 100
      [200, { "content-type" => "text/plain" }, [code]]
    end)
  RUBY

  def setup
    skip "this build has no HTTP/2" if GyreTest::H2Serving::BACKENDS.empty?
    @clients = []
  end

  def teardown
    @clients.each(&:close)
  end

  def connect(program)
    GyreTest::H2Client.new(self, TCPSocket.new("127.0.0.1", program.port)).tap { |client| @clients << client }
  end

  def waiting_streams(client, program, count)
    streams = Array.new(count) { client.open("GET /wait", end_stream: true) }
    eventually { program.text(:out).scan(/^waiting$/).size == count }
    streams
  end

  def go(program)
    File.write(File.join(program.folder, "go"), "")
  end

  def test_a_stop_finishes_the_streams_that_run
    serve(app: APP, files: { "code" => "1" }) do |program|
      client = connect(program)
      streams = waiting_streams(client, program, 3)
      program.signal(:TERM)
      client.wait_frame(:goaway)
      go(program)
      assert_equal %w[1 1 1], streams.map { |stream| stream.response.body }
      assert_equal :no_error, client.failure
      assert_predicate program.status, :success?
    end
  end

  def test_a_rolling_restart_finishes_the_streams_that_run
    serve("-w", "1", app: APP, files: { "code" => "1" }) do |program|
      client = connect(program)
      streams = waiting_streams(client, program, 2)
      File.write(File.join(program.folder, "code"), "2")
      program.signal(:USR1)
      client.wait_frame(:goaway)
      assert_equal "2", connect(program).get.body
      go(program)
      assert_equal %w[1 1], streams.map { |stream| stream.response.body }
      assert_equal :no_error, client.failure
      program.expect(/^Rolling restart: all workers run the new code$/)
    end
  end

  def test_a_stop_under_load_fails_no_request_that_was_begun
    h2load = need_program("h2load")
    serve(app: APP, files: { "code" => "1" }) do |program|
      command = [{ "LD_PRELOAD" => nil }, h2load, "-n", "200000", "-c", "4", "-m", "10", "http://127.0.0.1:#{program.port}/load"]
      load = Thread.new { run_program(*command) }
      program.expect(/^loaded$/)
      program.signal(:TERM)
      assert_predicate program.status, :success?
      statuses = load.value.out[/status codes: .*/]
      assert_match(/[1-9]\d* 2xx, 0 3xx, 0 4xx, 0 5xx/, statuses)
    end
  end
end
