# frozen_string_literal: true

# A listener that passes each connection on to a server through a FaultProxy: in pieces of a given
# size, cut after so many bytes. One thread does it all; TLS and its records pass as they are.
require "socket"
require "tmpdir"
require "fileutils"
require_relative "fault_proxy"

module GyreTest
  # Until `close`.
  class FaultRelay
    # Returns where clients connect: "127.0.0.1:port", or the path of a Unix socket.
    attr_reader :address
    attr_reader :proxies

    def initialize(target, once: false, **faults)
      @target = target
      @faults = faults
      @once = once
      @proxies, @sockets = [], []
      @folder = Dir.mktmpdir("gyre-relay") if target.start_with?("/")
      @listener = @folder ? UNIXServer.new(File.join(@folder, "socket")) : TCPServer.new("127.0.0.1", 0)
      @address = @folder ? @listener.path : "127.0.0.1:#{@listener.local_address.ip_port}"
      @ended, @end = IO.pipe
      @thread = Thread.new { run }
    end

    def close
      return unless @thread

      @end.close
      @thread.join
      @thread = nil
      [@ended, @listener].each(&:close)
      FileUtils.remove_entry(@folder) if @folder
    end

    private

    def run
      loop do
        ready, = IO.select([@ended, @listener, *waiting])
        break if ready.include?(@ended)

        accept if ready.include?(@listener)
        nil while @proxies.map(&:turn).any?
      end
    ensure
      @sockets.each(&:close)
    end

    def waiting
      @proxies.flat_map { |proxy| proxy.directions.reject(&:ended?).map(&:from) }.reject(&:closed?)
    end

    def accept
      client = @listener.accept_nonblock(exception: false)
      return if client == :wait_readable

      @sockets << client
      @sockets << (server = connect)
      @proxies << FaultProxy.new([[nil, client], [nil, server]], **(@once && @proxies.any? ? {} : @faults))
    rescue Errno::ECONNREFUSED, Errno::ENOENT
      client.close # there is no server behind
    end

    def connect
      return UNIXSocket.new(@target) if @folder

      host, _, port = @target.rpartition(":")
      TCPSocket.new(host, port.to_i)
    end
  end
end
