# frozen_string_literal: true

# What must be together, and what must not.

require "test_helper"
require "gyre/cli/log/configuration"
require "socket"
require "tmpdir"

class LogConfigurationRulesTest < Minitest::Test
  def mistakes(text)
    assert_raises(Gyre::CLI::Log::Configuration::Invalid, text) { Gyre::CLI::Log::Configuration.parse(text, "f") }.mistakes
  end

  def test_a_socket_needs_its_port
    expected = "f:3: logs[1].options: a socket needs tcp://host:port, unix:///path, or a host with options: [port]"
    assert_equal [expected], mistakes("logs:\n- {service: a, logfile: localhost, type: socket,\n   options: [x]}")
    ["localhost:1", "tcp://localhost:1", "/tmp/socket"].each do |address|
      Gyre::CLI::Log::Configuration.parse("logs: [{service: a, type: socket, logfile: '#{address}'}]")
    end
  end

  def test_redis_has_two_options
    assert_equal ["f:1: logs[1].options.key: unknown key; known: stream, max_length"],
                 mistakes("logs: [{service: a, logfile: 'redis://localhost', options: {key: b}}]")
    assert_equal ["f:1: logs[1].options: Redis has stream, max_length, as keys with values"],
                 mistakes("logs: [{service: a, type: redis, logfile: localhost, options: [6379]}]")
    Gyre::CLI::Log::Configuration.parse("logs: [{service: a, type: redis, logfile: localhost, options: {stream: b, max_length: 5}}]")
  end

  def test_a_spill_is_for_outputs_other_than_files_and_in_a_folder_of_its_own
    with = ->(settings) { "logs: [{service: a, #{settings}}]" }
    ["logfile: 'tcp://a:1'", "logfile: STDERR", "logfile: /dev/null", "type: redis, logfile: localhost"].each do |output|
      settings = Gyre::CLI::Log::Configuration.parse(with["#{output}, when_full: spill, spill: b"]).settings[:logs].first
      assert_equal %w[spill b], settings.values_at(:when_full, :spill)
    end
    ["logfile: a.log", "type: file, logfile: a.log"].each do |output|
      assert_equal ["f:1: logs[1].when_full: spill is for sockets, pipes and Redis; a log file is on a disk already: choose block or drop"],
                   mistakes(with["#{output}, when_full: spill, spill: b"])
    end
    assert_equal ["f:1: logs[1].when_full: spill needs spill: a folder of its own"], mistakes(with["logfile: 'tcp://a:1', when_full: spill"])
    assert_equal ["f:1: logs[1].spill: counts with when_full: spill only"], mistakes(with["logfile: 'tcp://a:1', spill: b"])
    two = ["tcp://a:1", "tcp://a:2"].map { |address| "{service: a, logfile: '#{address}', when_full: spill, spill: b}" }
    assert_equal ["f:1: logs: \"b\" is the spill of two outputs; each needs its own"], mistakes("logs: [#{two.join(", ")}]")
  end

  def test_a_spill_that_others_may_change_is_reported_before
    Dir.mktmpdir do |folder|
      spill = File.join(folder, "spill")
      text = "logs: [{service: a, logfile: 'tcp://a:1', when_full: spill, spill: '#{spill}'}]"
      Gyre::CLI::Log::Configuration.parse(text, places: true)
      Dir.mkdir(spill)
      File.chmod(0o777, spill)
      error = assert_raises(Gyre::CLI::Log::Configuration::Invalid) { Gyre::CLI::Log::Configuration.parse(text, "f", places: true) }
      assert_equal ["f:1: logs[1].spill: #{spill} may be changed by other users (mode 0777): chmod go-w"], error.mistakes
    end
  end

  def test_a_rotation_needs_a_reason
    assert_equal ["f:1: rotate: needs size, every, or both", "f:3: logs[1].rotate: needs size, every, or both"],
                 mistakes("rotate: {keep: 3}\nlogs:\n- {service: a, logfile: b, rotate: {compress: gzip}}")
  end

  def test_tls_for_an_input_needs_a_certificate_and_a_stream
    assert_equal ["f:1: inputs: tls: true needs tls: with cert and key, at the top"],
                 mistakes("inputs: [{type: syslog, bind: 'localhost:1', tls: true}]")
    assert_equal ["f:2: inputs[1].tls: datagrams cannot have TLS (udp://localhost:1)"],
                 mistakes("tls: {cert: a, key: b}\ninputs: [{type: syslog, bind: 'udp://localhost:1', tls: true}]")
  end

  def test_what_could_not_be_opened_is_reported_before
    Dir.mktmpdir do |folder|
      path, inner = %w[log.yml inner].map { |name| File.join(folder, name) }
      Dir.mkdir(inner)
      UNIXServer.new("#{folder}/socket").close
      File.write(path, <<~YAML)
        default_log: #{inner}
        pidfile: #{inner}
        logs:
        - service: a
          logfile: #{folder}/socket
        - {service: b, logfile: #{folder}/socket, type: socket}
        tls: {cert: #{path}, key: #{path}}
      YAML
      expected = ["#{path}:1: default_log: #{inner} is a folder: name a file in it", "#{path}:2: pidfile: #{inner} is a folder: name a file in it",
                  "#{path}:5: logs[1].logfile: #{folder}/socket is a socket: write unix://#{folder}/socket",
                  "#{path}:7: tls: the certificate #{path} holds no PEM certificate"]
      assert_equal expected, assert_raises(Gyre::CLI::Log::Configuration::Invalid) { Gyre::CLI::Log::Configuration.load(path) }.mistakes
      Gyre::CLI::Log::Configuration.load(path, places: false)
    end
  end

  def test_two_names_of_one_file_are_one_file
    Dir.mktmpdir do |folder|
      File.symlink("a", "#{folder}/b")
      text = "logs: [{service: a, logfile: #{folder}/a}, {service: b, logfile: #{folder}/b, format: json}]"
      assert_equal ["f:1: logs: logs to #{"#{folder}/a".inspect} must have the same format everywhere"], mistakes(text)
    end
  end

  def test_what_goes_to_one_file_has_one_mode
    assert_equal ['f:1: logs: logs to "a" must have the same mode everywhere'],
                 mistakes("logs: [{service: a, logfile: a, mode: 0640}, {service: b, logfile: a}]")
    text = "mode: 0640\nowner: root\nlogs: [{service: a, logfile: a}, {service: b, logfile: b, mode: 0600}]"
    logs = Gyre::CLI::Log::Configuration.parse(text).settings[:logs]
    assert_equal [[0o640, "root"], [0o600, "root"]], logs.map { |log| log.values_at(:mode, :owner) }
  end

  def test_a_service_that_no_client_can_have_is_refused
    text = "logs: [{service: ['a:b', ok, 'wéb shop'], logfile: a}, {service: \"a\\n\", logfile: b}]"
    assert_equal ['f:1: logs: service "a:b" has a colon: no client can have that name, so nothing would go there',
                  'f:1: logs: service "a\n" is longer than 255 characters or has control characters: no client can have that name, ' \
                  "so nothing would go there"], mistakes(text)
    text = "port: 1\n#{text}\ninputs: [{type: json, bind: 'tcp://127.0.0.1:1'}]"
    assert_empty Gyre::CLI::Log::Configuration.parse(text).notices
  end

  def test_standard_output_needs_no_logfile
    logs = Gyre::CLI::Log::Configuration.parse("logs: [{service: a, type: stderr}, {service: b, type: stdout}]").settings[:logs]
    assert_equal %w[STDERR STDOUT], logs.map { |log| log[:logfile] }
  end
end
