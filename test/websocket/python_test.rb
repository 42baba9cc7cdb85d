# frozen_string_literal: true

# Debian's python3-websockets as a client. Run by `rake conformance:websockets`, which installs it.

require "test_helper"
require "http/contract"
require "websocket/foreign"

module WebSocketPython
  include GyreTest::ForeignWebSockets

  PYTHON = "/usr/bin/python3"

  def test_pythons_websockets
    there = File.executable?(PYTHON) && run_program({ "LD_PRELOAD" => nil }, PYTHON, "-c", "import websockets").status.success?
    skip "python3-websockets is not installed; rake conformance:websockets does it as root" unless there
    assert_client_finds({ "LD_PRELOAD" => nil }, PYTHON, File.join(__dir__, "client.py"))
  end
end

GyreTest::HTTPContract.run(WebSocketPython, over: %i[http1 tls], backends: GyreTest::Engines::NATIVE.first(1))
