# frozen_string_literal: true

# `gyre log reopen`, and the lines for logrotate that docs/log.md has.

require "test_helper"
require "zlib"
require_relative "../../log/peers"
require "gyre/log/client"

class CLILogReopenTest < Minitest::Test
  include GyreTest::LogPeers

  GYRE = GyreTest::LogPeers::GYRE
  DOCS = File.expand_path("../../../docs/log.md", __dir__)

  def reopen(server, *arguments)
    run_program({ "GYRE_LOG_KEY" => nil }, *GYRE.server, "reopen", *arguments, chdir: server.folder)
  end

  def client(server)
    client = Gyre::Log::Client.new("a", port: server.port, spool: false)
    yield client
  ensure
    client&.close
  end

  def test_when_it_returns_nothing_goes_to_the_former_file
    server = log_server(GYRE, { "interval" => 3600 })
    client(server) do |client|
      client.info("one")
      assert client.flush(30)
      File.rename(server.path("default.log"), server.path("default.log.1"))
      client.info("two")
      output = reopen(server, "-c", "log.yml")
      assert_equal [0, "", ""], [output.status.exitstatus, output.out, output.err]
      before = server.read("default.log.1")
      client.info("three")
      assert client.flush(30)
      assert_equal before, server.read("default.log.1")
      assert_match(/one\n/, before)
      assert_match(/three\n\z/, server.read("default.log"))
      assert_equal 1, (server.lines("default.log.1") + server.lines).grep(/two\z/).size
    end
  end

  def test_a_file_that_cannot_be_reopened_is_reported
    server = log_server(GYRE)
    client(server) do |client|
      client.info("one")
      assert client.flush(30)
      File.rename(server.path("default.log"), server.path("default.log.1"))
      Dir.mkdir(server.path("default.log"))
      output = reopen(server, "-p", server.port.to_s)
      assert_equal 1, output.status.exitstatus
      assert_match(/\Agyre log reopen: .*not every file could be reopened/, output.err)
      Dir.rmdir(server.path("default.log"))
      assert_equal 0, reopen(server, "-p", server.port.to_s).status.exitstatus
    end
  end

  def test_without_a_server_or_the_key
    server = log_server(GYRE, { "key" => "sesame" })
    output = reopen(server, "-p", server.port.to_s)
    assert_equal [1, true], [output.status.exitstatus, output.err.include?("does not accept the key")]
    assert_equal 0, reopen(server, "-c", "log.yml").status.exitstatus
    server.stop
    output = reopen(server, "-c", "log.yml")
    assert_equal [1, true], [output.status.exitstatus, output.err.include?("no server listens on")]
    assert_equal 2, reopen(server, "now").status.exitstatus
  end

  # With messages coming all the time.
  def test_the_lines_for_logrotate_in_the_guide_lose_nothing
    logrotate = need_program("logrotate")
    server = log_server(GYRE)
    File.chmod(0o755, server.folder)
    lines = File.read(DOCS)[%r{^/var/log/gyre/.*?^\}$}m]
    lines = lines.sub("/var/log/gyre/*.log", server.path("*.log")).sub("gyre log", GYRE.server.join(" "))
                 .sub("/etc/gyre/log.yml", server.path("log.yml")).sub(/^}/, "    su #{Process.uid} #{Process.gid}\n}")
    File.write(server.path("logrotate.conf"), lines, perm: 0o600)
    stop = false
    writer = Thread.new do
      client(server) do |client|
        number = 0
        until stop && number > 100
          client.info("m#{number += 1}")
          client.flush(30) if (number % 20).zero?
        end
        assert client.flush(30)
        number
      end
    end
    4.times do |round|
      eventually { server.lines.size > 20 }
      output = run_program(logrotate, "-f", "-s", server.path("state"), server.path("logrotate.conf"))
      assert_equal [0, ""], [output.status.exitstatus, output.err]
      assert_path_exists server.path("default.log.#{round + 1}.gz")
    end
    stop = true
    count = writer.value
    server.stop(:TERM)
    text = Dir[server.path("default.log*.gz")].map { |path| Zlib::GzipReader.open(path, &:read) }.join + server.read("default.log")
    assert_equal (1..count).to_a, text.scan(/\|m(\d+)$/).flatten.map(&:to_i).sort
  end
end
