# frozen_string_literal: true

# The command line of `gyre log`: Analogger's flags in both forms.

require "test_helper"
require "gyre/cli/log/serve"

class CLILogServeOptionsTest < Minitest::Test
  def options(*arguments)
    Gyre::CLI::Log::Serve.new.tap { |serve| (@flags = serve.flags).read(arguments) }
  end

  def test_analoggers_flags
    options = options(*%w[-c a.yml -p 1234 -h localhost -i 2 -s 0 -d - -x -w b.pid])
    assert_equal "a.yml", options.path
    assert_equal({ port: 1234, host: "localhost", interval: 2, sync_interval: 0, default_log: "STDOUT", daemonize: true, pidfile: "b.pid" },
                 options.values)
    assert_empty options.notices
  end

  def test_the_long_forms
    options = options(*%w[--config a.yml --port 1 --host b --interval 0.5 --syncinterval 3 --default c --daemonize --writepid d])
    assert_equal({ port: 1, host: "b", interval: 0.5, sync_interval: 3, default_log: "c", daemonize: true, pidfile: "d" }, options.values)
  end

  def test_the_long_forms_that_are_keys_of_the_configuration
    options = options(*%w[--sync-interval 3 --default-log c --pidfile d])
    assert_equal({ sync_interval: 3, default_log: "c", pidfile: "d" }, options.values)
    assert_empty options.values.keys - Gyre::CLI::Log::Configuration::SETTINGS.names
  end

  def test_arguments_may_be_left_out
    assert_equal({ pidfile: "analogger.pid" }, options("-p", "-k", "-i", "-s", "-d", "-w").values)
  end

  def test_several_addresses
    assert_equal ["localhost:1", "unix:///tmp/x"], options("-b", "localhost:1", "--bind", "unix:///tmp/x").values[:bind]
  end

  def test_a_key_on_the_command_line_is_taken_with_a_warning_that_does_not_repeat_it
    options = options("-k", "topsecret")
    assert_equal "topsecret", options.values[:key]
    assert_match(/the key is on the command line, where every user.*GYRE_LOG_KEY/, options.notices.join)
    refute_match(/topsecret/, options.notices.join)
  end

  def test_what_is_shown_instead
    assert_equal [:help, :help, :version], [["--help"], ["-h"], ["-v"]].map { |words| options(*words) && @flags.asked }
  end

  def test_mistakes
    messages = [%w[-p x], %w[-i soon], %w[--prot 1], %w[--bind http//x:1]].map do |words|
      assert_raises(Gyre::UsageError) { options(*words) }.message
    end
    assert_equal '--port: must be a port, 0 to 65535, not "x"', messages[0]
    assert_equal '--interval: must be a time like 1.5 or "2 minutes", at least 0, not "soon"', messages[1]
    assert_equal "--prot: unknown flag; did you mean --port?", messages[2]
    assert_match(/--bind: "http.*" is not an address/, messages[3])
    error = assert_raises(Gyre::UsageError) { options.call(%w[word]) }
    assert_equal "unexpected argument word", error.message
  end

  def test_the_help_fits_a_terminal
    options
    assert_empty @flags.help.lines(chomp: true).select { |line| line.size > 80 }
  end
end
