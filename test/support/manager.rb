# frozen_string_literal: true

# A service manager for tests: a real datagram socket in systemd's place.

require "socket"
require "tmpdir"

module GyreTest
  # Stands in for systemd: what it has been told. It reads all the time, because a server waits for
  # no manager whose queue is full.
  class Manager
    attr_reader :path

    def initialize(folder)
      @path = File.join(folder, "notify")
      @socket = Socket.new(:UNIX, :DGRAM)
      @socket.bind(Addrinfo.unix(@path))
      @told = []
      @lock = Mutex.new
      @thread = Thread.new { told while @socket.wait_readable }
    end

    def told
      @lock.synchronize do
        while (message = @socket.recv_nonblock(4096, exception: false)) != :wait_readable
          @told << message
        end
        @told
      end
    end

    def stop_reading = @thread.kill.join

    def close
      stop_reading
      @socket.close
    end
  end

  # For test classes.
  module WithManager
    # Yields a manager, and a folder.
    def with_manager
      Dir.mktmpdir do |folder|
        manager = Manager.new(folder)
        yield manager, folder
      ensure
        manager&.close
      end
    end
  end
end
