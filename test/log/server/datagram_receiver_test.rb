# frozen_string_literal: true

# What a datagram receiver takes in one turn.

require "test_helper"
require "gyre"
require "gyre/net"
require "gyre/log/limits"
require "gyre/log/server/acceptor"

class LogDatagramReceiverTest < Minitest::Test
  # What a receiver needs of a hub, its loop and its ingest, in one.
  class Hub
    attr_reader :messages, :bytes

    def initialize
      @messages = []
      @bytes = 0
    end

    def loop = self
    def flow = self
    def ingest = self
    def paused? = false
    def time_ns = 0
    def watch_io(*); end
    def limits = Gyre::Log::Limits.new
    def datagram(_kind, bytes, _time_ns, _host) = @messages << bytes
    def received(_session, bytes) = @bytes += bytes
  end

  Input = Struct.new(:kind)

  # The kernel does not report packets again that came with others in one system call.
  def test_no_packet_remains_when_a_turn_has_had_its_share
    listener = Gyre::Endpoint.parse("udp://127.0.0.1:0", transports: [:udp]).bind.first
    receiver = Gyre::Log::DatagramReceiver.new(hub = Hub.new, listener, Input.new(:syslog))
    receiver.resume
    sender = UDPSocket.new.tap { |socket| socket.connect("127.0.0.1", listener.endpoint.port) }
    sent = Array.new(270) { |number| number.to_s.b.tap { |text| sender.send(text, 0) } }
    receiver.ready
    assert_operator hub.messages.size, :>=, Gyre::Log::DatagramReceiver::READS
    sent.drop(hub.messages.size).each { |text| assert_equal text, listener.socket.recv_nonblock(100, exception: false) }
    assert_equal hub.messages.sum(&:bytesize), hub.bytes
  ensure
    [sender, listener].compact.each(&:close)
  end
end
