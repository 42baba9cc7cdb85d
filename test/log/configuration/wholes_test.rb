# frozen_string_literal: true

# What must be together, and what must not.

require "test_helper"
require "gyre/log/configuration"

class LogConfigurationWholesTest < Minitest::Test
  def mistakes(text)
    assert_raises(Gyre::Log::Configuration::Invalid, text) { Gyre::Log::Configuration.parse(text, "f") }.mistakes
  end

  def test_a_socket_needs_its_port
    expected = "f:3: logs[1].options: a socket needs its port, as in: options: [6767]"
    assert_equal [expected], mistakes("logs:\n- {service: a, logfile: localhost, type: socket,\n   options: [x]}")
    ["localhost:1", "tcp://localhost:1", "/tmp/socket"].each do |address|
      Gyre::Log::Configuration.parse("logs: [{service: a, type: socket, logfile: '#{address}'}]")
    end
  end

  def test_redis_has_two_options
    assert_equal ["f:1: logs[1].options.key: there is no such key; there are: stream, max_length"],
                 mistakes("logs: [{service: a, logfile: 'redis://localhost', options: {key: b}}]")
    assert_equal ["f:1: logs[1].options: redis has stream and max_length, as keys with values"],
                 mistakes("logs: [{service: a, type: redis, logfile: localhost, options: [6379]}]")
    Gyre::Log::Configuration.parse("logs: [{service: a, type: redis, logfile: localhost, options: {stream: b, max_length: 5}}]")
  end

  def test_a_rotation_needs_a_reason
    assert_equal ["f:1: rotate: needs size, every, or both", "f:3: logs[1].rotate: needs size, every, or both"],
                 mistakes("rotate: {keep: 3}\nlogs:\n- {service: a, logfile: b, rotate: {compress: gzip}}")
  end

  def test_tls_for_an_input_needs_a_certificate_and_a_stream
    assert_equal ["f:1: inputs: tls: true needs tls: with certificate and key, at the top"],
                 mistakes("inputs: [{type: syslog, bind: 'localhost:1', tls: true}]")
    assert_equal ["f:2: inputs[1].tls: there is no TLS for datagrams (udp://localhost:1)"],
                 mistakes("tls: {certificate: a, key: b}\ninputs: [{type: syslog, bind: 'udp://localhost:1', tls: true}]")
  end

  def test_standard_output_needs_no_logfile
    logs = Gyre::Log::Configuration.parse("logs: [{service: a, type: stderr}, {service: b, type: stdout}]").settings[:logs]
    assert_equal %w[STDERR STDOUT], logs.map { |log| log[:logfile] }
  end
end
