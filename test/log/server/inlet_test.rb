# frozen_string_literal: true

# What is listened for, from settings: Gyre::Log::Inlet.

require "test_helper"
require "tmpdir"
require "gyre/log/server/inlet"
require "support/certificates"

class LogInputTest < Minitest::Test
  Inlet = Gyre::Log::Inlet

  def test_the_main_port_comes_first
    inputs = Inlet.all(["localhost", "/run/log.sock"], [], nil)
    assert_equal ["tcp://localhost:6766", "unix:///run/log.sock"], inputs.map(&:to_s)
    assert_equal [nil, nil], inputs.map(&:kind)
    assert_equal ["tcp://127.0.0.1:7000"], Inlet.all(7000, [], nil).map(&:to_s)
  end

  def test_each_kind_has_its_addresses
    inputs = Inlet.all(0, [{ type: "syslog", bind: ["udp://0.0.0.0:0", "unixgram:///dev/log", "tcp://localhost"], framing: "lines" },
                           { type: :json, bind: "tcp://localhost" }], nil).drop(1)
    assert_equal ["syslog udp://0.0.0.0:0", "syslog unixgram:///dev/log", "syslog tcp://localhost:514", "json tcp://localhost:6767"],
                 inputs.map(&:to_s)
    assert_equal %i[lines lines lines auto], inputs.map(&:framing)
  end

  def test_tls_is_for_the_main_port_and_for_inputs_that_name_it
    Dir.mktmpdir do |folder|
      certificate, key = GyreTest::Certificates.new(folder).issue("server")
      tls = { cert: certificate, key: key }
      inputs = Inlet.all(0, [{ type: :json, bind: 1 }, { type: :json, bind: 2, tls: true }], tls)
      assert_equal [true, false, true], inputs.map(&:tls?)
      assert_equal "json tls tcp://127.0.0.1:2", inputs[2].to_s
      assert_includes refusal([{ type: :syslog, bind: "udp://localhost", tls: true }]), "datagrams cannot have TLS (udp://localhost:514)"
    end
  end

  def test_wrong_settings_are_named
    assert_includes refusal([{ type: "ftp", bind: 1 }]), "type: must be syslog or json, not \"ftp\""
    assert_includes refusal([{ type: "syslog", bind: 1, framing: "none" }]), "framing: must be auto, octet_counting, lines or zero, not \"none\""
    assert_includes refusal([{ type: "json", bind: 1, tls: true }]), "needs tls: with cert and key"
    assert_includes refusal([{ type: "json", bind: "ftp://host" }]), "is not an address"
    assert_includes assert_raises(ArgumentError) { Inlet.all("udp://localhost:1", [], nil) }.message, "tcp://host:port"
    assert_includes assert_raises(ArgumentError) { Inlet.all(1, [], { cert: "/nowhere.pem", key: "/nowhere.key" }) }.message, "/nowhere.pem"
  end

  private

  def refusal(inputs)
    assert_raises(ArgumentError) { Inlet.all(0, inputs, nil) }.message
  end
end
