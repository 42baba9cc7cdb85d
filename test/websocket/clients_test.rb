# frozen_string_literal: true

# node's ws as a client. npm installs it once, into tmp/node-ws.

require "test_helper"
require "http/contract"
require "websocket/foreign"

module WebSocketClients
  include GyreTest::ForeignWebSockets

  FOLDER = File.join(GyreTest::Helpers::ROOT, "tmp", "node-ws")

  def test_nodes_ws
    node = need_program("node")
    install unless File.directory?("#{FOLDER}/node_modules/ws")
    assert_client_finds({ "NODE_PATH" => "#{FOLDER}/node_modules", "LD_PRELOAD" => nil }, node, File.join(__dir__, "client.js"))
  end

  private

  # Two processes of a run may do so at a time.
  def install
    FileUtils.mkdir_p(File.dirname(FOLDER))
    File.open("#{FOLDER}.lock", File::CREAT) do |lock|
      lock.flock(File::LOCK_EX)
      next if File.directory?("#{FOLDER}/node_modules/ws")

      made = "#{FOLDER}-#{Process.pid}"
      command = [need_program("npm"), "install", "--prefix", made, "--no-audit", "--no-fund", "--ignore-scripts", "ws@8"]
      output = run_program({ "LD_PRELOAD" => nil }, *command)
      skip "node's ws could not be installed by npm: #{output.err.lines.grep(/npm (?:error|ERR)/).first}" unless output.status.success?
      FileUtils.rm_rf(FOLDER)
      File.rename(made, FOLDER)
    ensure
      FileUtils.rm_rf(made) if made
    end
  end
end

GyreTest::HTTPContract.run(WebSocketClients, over: %i[http1 tls], backends: GyreTest::Engines::NATIVE.first(1))
