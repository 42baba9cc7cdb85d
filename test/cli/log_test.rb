# frozen_string_literal: true

# `gyre log` as people call it: which command it finds, what it reports about mistakes, what --check
# does.

require "test_helper"

class CLILogTest < Minitest::Test
  def gyre(*arguments, files: {}, env: {})
    Dir.mktmpdir do |folder|
      files.each { |name, text| File.write(File.join(folder, name), text) }
      run_program(*ruby_command(EXE, "log", *arguments, env: { "GYRE_LOG_KEY" => nil }.merge(env)), chdir: folder)
    end
  end

  def test_help_names_the_commands
    output = gyre("--help")
    assert_equal [0, ""], [output.status.exitstatus, output.err]
    assert_match(/gyre log \[serve\].*gyre log send.*gyre log tail.*gyre log status/m, output.out)
    assert_equal output.out, gyre("serve", "--help").out
  end

  def test_version
    assert_match(/\Agyre \d+\.\d+\.\d+\n\z/, gyre("-v").out)
  end

  def test_an_unknown_command_is_refused_with_those_that_exist
    output = gyre("sned", "a", "b")
    assert_equal [2, "gyre log: unknown command sned; did you mean send? Run `gyre log --help`.\n"],
                 [output.status.exitstatus, output.err]
  end

  def test_a_bad_flag_is_one_line_and_where_to_look
    output = gyre("--prot", "1")
    assert_equal [2, "gyre log: --prot: unknown flag; did you mean --port?\nRun `gyre log --help` for the flags.\n"],
                 [output.status.exitstatus, output.err]
  end

  def test_check_reports_that_all_is_well
    output = gyre("-c", "a.yml", "--check", files: { "a.yml" => "port: 1\n" })
    assert_equal [0, "a.yml OK\n", ""], [output.status.exitstatus, output.out, output.err]
  end

  def test_check_reports_what_an_address_lacks
    logs = %w[udp:// tcp:// tcp://host tcp://:1 tcp://host:0 unix:// unix:/// redis+unix:// redis://h:0]
    entries = logs.map { |address| "- {service: a, logfile: '#{address}'}\n" }.join
    text = "default_log: 'tcp://host:99999'\ninputs: [{type: syslog, bind: 'udp://'}]\nlogs:\n#{entries}"
    output = gyre("-c", "a.yml", "--check", files: { "a.yml" => text })
    assert_equal 1, output.status.exitstatus
    assert_equal [1, 2, *4..12], output.err.scan(/^a\.yml:(\d+): /).flatten.map(&:to_i)
    assert_match(%r{:1: default_log: "tcp://host:99999" is not an address: the port must be}, output.err)
    assert_match(%r{:2: inputs\[1\]\.bind: "udp://" is not an address: write udp://host:port}, output.err)
    assert_match(%r{:4: logs\[1\]\.logfile: nothing can be written to udp://; there are: redis://, .*tcp://}, output.err)
    assert_match(/:11: logs\[8\]\.logfile: the path of the Unix socket is missing/, output.err)
    output = gyre("-d", "udp://", "--check")
    assert_equal [2, "gyre log: --default-log: nothing can be written to udp://; there are: redis://, rediss://, redis+unix://, tcp://, unix://\n"],
                 [output.status.exitstatus, output.err.lines.first]
  end

  def test_a_folder_that_a_flag_names_is_looked_for_by_check_too
    { "-d" => "--default-log", "-w" => "--pidfile" }.each do |flag, name|
      output = gyre(flag, "/nowhere/x", "--check")
      assert_equal [2, "gyre log: #{name}: the folder /nowhere is not there: make it first\n"],
                   [output.status.exitstatus, output.err.lines.first]
    end
  end

  def test_check_reports_every_mistake
    output = gyre("-c", "a.yml", "--check", files: { "a.yml" => "prot: 1\nlevels: ''\nsecret: hush\n" })
    assert_equal [1, "", <<~TEXT], [output.status.exitstatus, output.out, output.err]
      gyre log: 2 mistakes; nothing was started:
      a.yml:1: prot: unknown key; did you mean port?
      a.yml:2: levels: must be severities, as in: debug,info,warn, not ""
    TEXT
  end

  def test_a_file_that_is_not_there
    output = gyre("-c", "a.yml")
    assert_equal [1, "gyre log: a.yml: the configuration cannot be read: no such file or directory\n"], [output.status.exitstatus, output.err]
  end
end
