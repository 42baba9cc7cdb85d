# frozen_string_literal: true

# `gyre log` as people call it: which command it finds, what it says about mistakes, what --check does.

require "test_helper"

class LogCommandTest < Minitest::Test
  # @return [GyreTest::Helpers::Output]
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

  def test_an_unknown_command_is_told_which_there_are
    output = gyre("sned", "a", "b")
    assert_equal [2, "gyre log: there is no command sned. There are: serve, send, tail, status, reopen. Run `gyre log --help`.\n"],
                 [output.status.exitstatus, output.err]
  end

  def test_a_bad_flag_is_one_line_and_where_to_look
    output = gyre("--prot", "1")
    assert_equal [2, "gyre log: --prot: there is no such flag; did you mean --port?\nRun `gyre log --help` for the flags.\n"],
                 [output.status.exitstatus, output.err]
  end

  def test_check_says_that_all_is_well
    output = gyre("-c", "a.yml", "--check", files: { "a.yml" => "port: 1\n" })
    assert_equal [0, "a.yml is right\n", ""], [output.status.exitstatus, output.out, output.err]
  end

  def test_check_tells_every_mistake
    output = gyre("-c", "a.yml", "--check", files: { "a.yml" => "prot: 1\nlevels: ''\nsecret: hush\n" })
    assert_equal [1, "", <<~TEXT], [output.status.exitstatus, output.out, output.err]
      gyre log: 2 mistakes; nothing was started:
      a.yml:1: prot: there is no such key; did you mean port?
      a.yml:2: levels: must be severities, as in: debug,info,warn, not ""
    TEXT
  end

  def test_a_file_that_is_not_there
    output = gyre("-c", "a.yml")
    assert_equal [1, "gyre log: a.yml: the configuration cannot be read: no such file or directory\n"], [output.status.exitstatus, output.err]
  end
end
