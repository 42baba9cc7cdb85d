# frozen_string_literal: true

# What an app prints by itself into a pipe that nothing reads: its own request waits, others do not.
# Gyre::CLI::Warnings does that for Kernel#warn, the scheduler for IO.

require "test_helper"
require "web/serving"
require "gyre"
require "gyre/cli/serve/warnings"

class CLIWarningsTest < Minitest::Test
  include GyreTest::Serving

  # More than a pipe takes, by each way to print.
  NOISY = <<~'RUBY'
    require "logger"
    LOGGER = Logger.new($stdout)
    WAYS = {
      "puts" => -> { $stdout.puts("x" * 1_000_000) },
      "logger" => -> { 2_000.times { LOGGER.info("x" * 500) } },
      "syswrite" => -> { 20.times { $stdout.syswrite("x" * 50_000) } },
      "stderr" => -> { $stderr.puts("x" * 1_000_000) },
      "warn" => -> { 2_000.times { warn("x" * 500) } }
    }
    run(lambda do |env|
      if (way = WAYS[env["PATH_INFO"].delete("/")])
        File.write("begun", "")
        way.call
        [200, { "content-type" => "text/plain" }, ["noisy"]]
      else
        [200, { "content-type" => "text/plain" }, ["quick"]]
      end
    end)
  RUBY

  def test_puts_into_a_pipe_that_nothing_reads_holds_up_no_other_request = check_holds_up_no_other_request("puts")

  def test_logger_into_a_pipe_that_nothing_reads_holds_up_no_other_request = check_holds_up_no_other_request("logger")

  def test_syswrite_into_a_pipe_that_nothing_reads_holds_up_no_other_request = check_holds_up_no_other_request("syswrite")

  def test_stderr_into_a_pipe_that_nothing_reads_holds_up_no_other_request = check_holds_up_no_other_request("stderr")

  def test_warn_into_a_pipe_that_nothing_reads_holds_up_no_other_request = check_holds_up_no_other_request("warn")

  def check_holds_up_no_other_request(way)
    skip "Ruby #{RUBY_VERSION} writes to a blocking pipe by itself" unless Gyre::Scheduler.method_defined?(:io_write)

    serve("-e", "production", app: NOISY) do |program|
      port = program.port
      noisy = Array.new(2) { program.request("/#{way}", socket: TCPSocket.new("127.0.0.1", port)) }
      eventually { File.exist?(File.join(program.folder, "begun")) }
      3.times { assert_match(/\r\n\r\nquick\z/, program.get("/quick", socket: TCPSocket.new("127.0.0.1", port))) }
      assert_nil noisy.first.wait_readable(0), "it waits for the pipe"
      eventually(what: "the ends of the noisy requests") do
        %i[out err].each { |stream| program.text(stream).clear }
        noisy.all? { |socket| socket.wait_readable(0) }
      end
      noisy.each { |socket| assert_match(/\r\n\r\nnoisy\z/, socket.read) }
    ensure
      noisy&.each(&:close)
    end
  end

  def test_a_signals_handler_may_warn_while_a_request_waits_for_the_pipe
    app = <<~'RUBY'
      trap("URG") { File.write("trapped", "").then { warn("of the handler") } }
    RUBY
    serve("-e", "production", app: app + NOISY) do |program|
      noisy = program.request("/warn", socket: TCPSocket.new("127.0.0.1", program.port))
      eventually { File.exist?(File.join(program.folder, "begun")) }
      # Answered when the other request waits.
      program.get("/quick", socket: TCPSocket.new("127.0.0.1", program.port)) if Gyre::Scheduler.method_defined?(:io_write)
      program.signal(:URG)
      eventually { File.exist?(File.join(program.folder, "trapped")) }
      eventually(what: "the end of the noisy request") do
        program.text(:err).clear
        noisy.wait_readable(0)
      end
      assert_match(/\r\n\r\nnoisy\z/, noisy.read)
      assert_match(/\r\n\r\nquick\z/, program.get("/quick", socket: TCPSocket.new("127.0.0.1", program.port)))
    ensure
      noisy&.close
    end
  end

  # What stands below the modules that Warning is extended by.
  def test_a_warning_goes_to_the_error_stream_and_a_gems_own_way_comes_first
    output = ruby("-e", <<~'RUBY', "-rgyre/cli/serve/warnings")
      Warning.extend(Module.new { def warn(message, category: nil) = super("1 #{message}", category: category) })
      Gyre::CLI::Warnings.install
      Warning.extend(Module.new { def warn(message, category: nil) = super("2 #{message}", category: category) })
      warn "plain"
      Warning[:deprecated] = false
      warn "hidden", category: :deprecated
      Warning.extend(Module.new { def warn(message, category: nil) = category ? super : $stdout.puts("3 #{message}") })
      begin
        Warning.warn("x", category: :unheard_of)
      rescue ArgumentError => error
        puts error.message
      end
      warn "own"
    RUBY
    assert_equal ["1 2 plain\n", 0], [output.err, output.status.exitstatus]
    assert_match(/unknown category: unheard_of\n3 own\n/, output.out)
  end

  # Ruby ignores it for its own stream, and for no other.
  def test_a_warning_that_cannot_be_written_is_not_an_error
    output = ruby("-e", <<~'RUBY', "-rgyre/cli/serve/warnings")
      Gyre::CLI::Warnings.install
      reader, writer = IO.pipe
      STDERR.reopen(writer)
      [reader, writer].each(&:close)
      p warn("nothing reads it")
      STDERR.close
      p warn("it is closed")
      $stderr = Class.new { def write(*) = raise(IOError, "of its own") }.new
      begin
        warn("another stream")
      rescue IOError => error
        puts error.message
      end
    RUBY
    assert_equal ["nil\nnil\nof its own\n", 0], [output.out, output.status.exitstatus]
  end
end
