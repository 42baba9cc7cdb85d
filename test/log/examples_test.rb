# frozen_string_literal: true

# The three ways to come here from elsewhere, as programs: examples/log_from_*.rb.

require "test_helper"
require "support/engines"

GyreTest::Engines.test_case("LogExamplesTest", backends: GyreTest::Engines::NATIVE.first(1)) do
  def run_example(name)
    path = File.expand_path("../../examples/log_from_#{name}.rb", __dir__)
    run = ruby(path, env: { "GYRE_BACKEND" => backend, "LC_ALL" => "C.UTF-8", "GYRE_LOG_KEY" => nil }, within_s: 60)
    assert_predicate run.status, :success?, run.err
    [run.out.b, run.err]
  end

  def test_from_analogger
    out, err = run_example("analogger")
    lines = out.lines(chomp: true).map { |line| line.sub(%r{\A\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\|}, "") }
    assert_equal ["a wrong key: Gyre::Log::Denied", "shop|info|an order of 3 cafés".b], lines.first(2)
    assert_includes lines, "shop|error|two\\nlines, and one line in the file"
    assert_equal "the server ended with status 0", lines.last
    refute_includes out, "debug"
    assert_match(/\Agyre log: the log server .* refuses the key of service "shop"\n\z/, err)
  end

  def test_from_logger
    out, err = run_example("logger")
    assert_equal ["", "stored: true"], [err, out.lines(chomp: true).first]
    ["shop|info|started", "shop|warn|hardly any left", "shop|info|[order 7] paid", "shop|info|[child] forked", "shop|info|[threads] number 1",
     'shop|error|invalid value for Integer(): "three" (ArgumentError)\n'].each { |line| assert_includes out, line }
    refute_includes out, "never made"
  end

  def test_from_syslog
    out, err = run_example("syslog")
    assert_equal "", err
    assert_match(/\Assh\.log:\n(?:  .*\n){2}everything\.log:\n(?:  .*\n)+\z/, out)
    assert_includes out, "  sshd|info|host=web1 pid=4711 Accepted publickey for root"
    assert_includes out, %(  shop|info|host=web1 pid=99 id=order [at room="7"] paid)
    assert_match(/^  sshd\|warn\|host=.*who is there\?$/, out)
  end
end
