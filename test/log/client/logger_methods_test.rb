# frozen_string_literal: true

require "test_helper"
require "gyre/log/client"
require_relative "../fake_server"
require "tmpdir"

class LogLoggerMethodsTest < Minitest::Test
  # A Logger that keeps what it would send.
  class Kept < Logger
    include Gyre::Log::LoggerMethods

    attr_reader :kept

    def initialize(**options)
      set_up_levels
      super(nil, **options)
      @kept = []
    end

    def append(severity, message)
      @kept << [severity, message]
      true
    end
  end

  def logged(**options)
    logger = Kept.new(**options)
    yield logger
    logger.kept
  end

  def test_severities_are_methods
    kept = logged do |log|
      assert_equal true, log.debug("a")
      log.info("b")
      log.warn("c")
      log.error("d")
      log.fatal("e")
      log.unknown("f")
    end
    assert_equal [[0, "a"], [1, "b"], [2, "c"], [3, "d"], [4, "e"], [5, "f"]], kept
  end

  def test_add_and_log_take_numbers_and_names
    kept = logged do |log|
      log.add(Logger::WARN, "a")
      log.log("notice", "b")
      log.log(:info, "c")
      log.add(nil, "d")
      log.add(1, nil, "e")
      log.add(1) { "f" }
      log.add(1, nil, "name") { "g" }
      log.info("name") { "h" }
      log.info(nil)
      log.info(:object)
    end
    assert_equal [[2, "a"], ["notice", "b"], [:info, "c"], [nil, "d"], [1, "e"], [1, "f"], [1, "g"], [1, "h"], [1, nil], [1, :object]], kept
  end

  def test_the_level_holds_for_numbers_and_the_usual_names
    kept = logged(level: :warn) do |log|
      assert_equal true, log.info("no")
      assert_equal true, log.info { flunk "a block that is not needed is not called" }
      ["info", :debug, 1, "DEBUG"].each { |severity| log.log(severity, severity.to_s) }
      ["warn", :error, 4, "notice", nil].each { |severity| log.log(severity, "yes") }
      log << "raw"
      assert_equal [false, true, Logger::WARN], [log.info?, log.warn?, log.level]
      log.level = "debug"
      log.debug("now")
    end
    assert_equal ["DEBUG", "yes", "yes", "yes", "yes", "yes", "raw", "now"], kept.map(&:last)
  end

  # ActiveSupport's BroadcastLogger sets it, for `silence`, `log_at` and silence_healthcheck_path.
  def test_a_local_level_holds_for_its_fiber_only_and_until_it_is_taken_away
    kept = logged(level: :info) do |log|
      log.local_level = :error
      log.warn("no")
      assert_equal [Logger::ERROR, Logger::ERROR], [log.level, log.local_level]
      Thread.new { log.warn("another thread") }.join
      log.silence(Logger::DEBUG) { log.debug("lower") }
      log.local_level = Logger::FATAL
      log.error("no")
      log.local_level = nil
      log.info("afterwards")
      assert_equal [Logger::INFO, nil], [log.level, log.local_level]
    end
    assert_equal ["another thread", "lower", "afterwards"], kept.map(&:last)
  end

  def test_a_formatter_makes_the_text
    formatter = ->(severity, time, progname, message) { "#{severity} #{time.class} #{progname} #{message}\n" }
    kept = logged(formatter: formatter, progname: "prog") do |log|
      log.info("a")
      log.add(1, "b", "other")
      log.log("notice", "c")
      log.info("name") { "d" }
      log << "e\n"
      log.add(nil, "f\n")
    end
    assert_equal ["INFO Time prog a", "INFO Time other b", "notice Time prog c", "INFO Time name d", "e", "ANY Time prog f\n"], kept.map(&:last)
  end

  def test_silence_is_for_this_fiber_and_this_logger
    other = Kept.new
    kept = logged do |log|
      log.silence do |silent|
        silent.info("no")
        log.error("yes")
        log.silence(Logger::FATAL) { log.error("no") }
        log.error("still")
        Thread.new { log.info("thread") }.join
        Fiber.new { log.info("fiber") }.resume
        other.info("other")
      end
      log.info("after")
      log.with_level(:error) { log.info("no") }
      assert_raises(RuntimeError) { log.silence { raise "x" } }
      log.info("again")
    end
    assert_equal %w[yes still thread fiber after again], kept.map(&:last)
    assert_equal 1, other.kept.size
  end

  def test_it_is_a_logger
    GyreTest::FakeLogServer.open do |server|
      client = Gyre::Log::Client.new("app", port: server.port, spool: false, level: Logger::INFO)
      assert_kind_of Logger, client
      client.debug!
      assert client.debug?
      client.datetime_format = "%H"
      assert_same client, client.reopen
      client << "line\n"
      client.unknown(RuntimeError.new("oh"))
      assert client.flush(30)
      assert_equal [%w[info line], ["fatal", "oh (RuntimeError)\n"]], server.records.map { |record| [record.severity, record.message] }
    ensure
      client&.close
    end
  end

  def test_flush_need_not_wait
    client = Gyre::Log::Client.new("app", port: 1, spool: false, flush_timeout: 0, report: ->(_) {})
    client.info("x")
    assert_equal false, client.flush
  ensure
    client&.close(0)
  end

  # In a process of its own: ActiveSupport changes what all code sees.
  def test_active_support_tags_and_silences
    GyreTest::FakeLogServer.open do |server|
      output = ruby("-e", <<~'RUBY', server.port.to_s, gems: true)
        require "active_support"
        require "active_support/tagged_logging"
        require "active_support/logger"
        require "active_support/broadcast_logger"
        require "gyre/log/client"
        client = Gyre::Log::Client.new("rails", port: ARGV[0].to_i, spool: false)
        log = ActiveSupport::TaggedLogging.new(client)
        log.tagged("request 1") { log.info("one"); log.tagged("deep") { log.warn("two") } }
        log.tagged("chained").info("three")
        log.info("four")
        log.silence { log.info("no") }
        Gyre::Log::Client.include(ActiveSupport::LoggerSilence)
        log.silence { log.info("no"); log.error("five") }
        log.log_at(:warn) { log.info("no"); log.warn("six") }
        rails = ActiveSupport::BroadcastLogger.new(ActiveSupport::TaggedLogging.new(client)) # as Rails makes it of config.logger
        rails.silence { rails.info("no"); rails.error("seven"); Thread.new { rails.info("eight") }.join }
        rails.log_at(:fatal) { rails.error("no") }
        rails.tagged("request 2") { rails.info("nine") }
        log.flush
        client.info("plain")
        away = ActiveSupport::TaggedLogging.new(Gyre::Log::Client.new("rails", port: 1, spool: false, flush_timeout: 0, report: ->(_) {}))
        away.info("not stored")
        started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
        100.times { away.flush } # as Rails does after each request
        puts Process.clock_gettime(Process::CLOCK_MONOTONIC) - started < 100
        away.close(0)
        log.close
      RUBY
      assert_equal ["", "true\n"], [output.err, output.out]
      assert_equal ["[request 1] one", "[request 1] [deep] two", "[chained] three", "four", "five", "six", "seven", "eight",
                    "[request 2] nine", "plain"], server.messages
    end
  end
end
