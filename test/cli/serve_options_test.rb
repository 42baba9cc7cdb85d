# frozen_string_literal: true

# The flags of `gyre serve`: Gyre::CLI::Serve.

require "test_helper"
require "gyre/cli/serve"

class CLIServeOptionsTest < Minitest::Test
  def test_every_flag_sets_its_setting
    assert_equal({ bind: ["tcp://127.0.0.1:0", "unix:///run/app.sock"], port: 3000, host: "::1", environment: "production",
                   log_format: "json", quiet: true, shutdown_timeout: 1.5, pidfile: "app.pid" },
                 settings(*%w[-b tcp://127.0.0.1:0 --bind unix:///run/app.sock -p 3000 -o ::1 -e production -C gyre.rb
                              --log-format json -q --shutdown-timeout 1.5 --pidfile app.pid]))
  end

  def test_values_may_stand_after_an_equals_sign
    assert_equal({ port: 0, connections_limit: 5 }, settings("--port=0", "--connections-limit=5"))
  end

  def test_every_limit_has_a_flag_and_a_line_of_help
    help = Gyre::CLI::Serve.new.flags.help
    Gyre::HTTP::Limits::TABLE.each do |row|
      flag = "--#{row.name.to_s.delete_suffix("_s").tr("_", "-")}"
      assert_equal({ row.name => 7 }, settings(flag, "7"))
      assert_includes help.squeeze(" \n").tr("\n", ""), "#{flag} #{row.argument} #{row.meaning} (#{row.default_text})"
    end
  end

  def test_help_names_every_setting
    help = Gyre::CLI::Serve.new.flags.help
    Gyre::Web::SETTINGS.groups.each { |heading, rows| rows.each { |row| assert_match(/--(\[no-\])?#{row.flag[2..]}\b/, help) if heading } }
    assert_includes help, "config.ru"
  end

  def test_sizes_have_suffixes_and_times_may_be_none
    assert_equal({ body_bytes_limit: 10 << 20, header_bytes_limit: 64 << 10, keep_alive_timeout_s: nil, read_timeout_s: 0.5 },
                 settings(*%w[--body-bytes-limit 10M --header-bytes-limit 64k --keep-alive-timeout none --read-timeout 0.5]))
  end

  def test_an_unknown_flag_is_refused_with_the_nearest
    assert_equal "--bnid: unknown flag; did you mean --bind?", refusal("--bnid", "x")
    assert_equal "--kep-alive-timeout=5: unknown flag; did you mean --keep-alive-timeout?", refusal("--kep-alive-timeout=5")
    assert_equal "-z: unknown flag", refusal("-z")
  end

  def test_no_flag_is_completed_to_a_limit
    assert_equal "-n: unknown flag; write --workers", refusal("-n", "4")
    assert_equal({ workers: 4, worker_timeout: 10, worker_memory_limit: 512 << 20 },
                 settings(*%w[-w 4 --worker-timeout 10 --worker-memory-limit 512M]))
    assert_equal({ workers: "auto" }, settings("--workers", "auto"))
    assert_equal "--workers: must be a whole number from 0 to 1000, or auto, not \"x\"", refusal("-w", "x")
    assert_equal "-t: unknown flag; leave it out: Gyre needs no such setting (docs/from-puma.md)", refusal("-t", "5")
    assert_equal "--body-b: unknown flag; did you mean --body-bytes-limit?", refusal("--body-b", "5")
    assert_equal "--persistent-timeout: unknown flag; write --keep-alive-timeout", refusal("--persistent-timeout", "5")
  end

  def test_a_value_that_cannot_be_names_its_flag
    assert_equal "--port: must be a port, 0 to 65535, not \"x\"", refusal("--port", "x")
    assert_includes refusal("--port", "70000"), "--port: must be a port"
    assert_includes refusal("-b", "::1:80"), "--bind: \"::1:80\" is not an address: an IPv6 address goes in brackets"
    assert_equal "--log-format: must be none, common, combined, json, or have directives like %h %r %s, not \"xml\"", refusal("--log-format", "xml")
    assert_equal "--shutdown-timeout: must be a time like 1.5 or \"2 minutes\", at least 0, not \"x\"", refusal("--shutdown-timeout", "x")
    assert_includes refusal("--shutdown-timeout", "-1"), "at least 0"
    assert_equal "--header-count-limit: must be a whole number, at least 1, not \"0\"", refusal("--header-count-limit", "0")
    assert_equal "--read-timeout: must be a time like 1.5 or \"2 minutes\", above 0, or none, not \"0\"", refusal("--read-timeout", "0")
    assert_equal "--body-bytes-limit: must be a number of bytes like 500, 64k or 10M, at least 0, not \"1x\"", refusal("--body-bytes-limit", "1x")
    assert_equal "--bind: missing argument", refusal("--bind")
  end

  def test_each_flag_of_true_or_false_can_be_switched_off
    assert_equal({ compress: true, watchdog: false, quiet: true }, settings("--compress", "--no-watchdog", "-q"))
  end

  def test_two_apps_are_one_too_many
    error = assert_raises(Gyre::UsageError) { Gyre::CLI::Serve.new.call(%w[a.ru b.ru]) }
    assert_equal "unexpected argument b.ru", error.message
  end

  private

  def settings(*arguments)
    Gyre::CLI::Serve.new.tap { |serve| serve.flags.read(arguments) }.settings
  end

  def refusal(*arguments)
    assert_raises(Gyre::UsageError) { settings(*arguments) }.message
  end
end
