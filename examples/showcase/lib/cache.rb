# frozen_string_literal: true

# The memcached for the page's measurements: MEMCACHE_SERVERS, else one of the showcase's own if the
# program is installed, else one at the usual port. Looked up with the first request that needs it;
# its own ends with the process in any case.

require "fileutils"
require "socket"
require "tmpdir"

module Showcase
  # May be used from any thread.
  class Cache
    USUAL = "127.0.0.1:11211"
    START_S = 5
    # memcached ends with this script's input, which the showcase keeps open.
    UNTIL_INPUT_ENDS = '"$@" & read -r _; kill $!'

    def initialize
      @lock = Mutex.new
    end

    # Its address for Gyre::Memcached::Client, or nil.
    def address
      @lock.synchronize { @address ||= ENV["MEMCACHE_SERVERS"] || start || (USUAL if answers? { TCPSocket.new(*USUAL.split(":")) }) }
    end

    private

    # The path of its socket.
    def start
      program = find("memcached") or return
      folder = Dir.mktmpdir("gyre-showcase-cache")
      path = File.join(folder, "socket")
      command = [program, "-s", path, "-m", "64", "-t", "1", *(%w[-u root] if Process.uid.zero?)]
      process = IO.popen(["sh", "-c", UNTIL_INPUT_ENDS, "sh", *command], "w")
      at_exit { stop(process, folder) }
      deadline = monotonic_now + START_S
      sleep 0.01 until (ready = answers? { UNIXSocket.new(path) }) || monotonic_now > deadline
      path if ready
    end

    def stop(process, folder)
      process.close # waits for its end
      FileUtils.rm_rf(folder)
    end

    def find(program)
      ENV.fetch("PATH", "").split(File::PATH_SEPARATOR).map { |folder| File.join(folder, program) }.find { |path| File.executable?(path) }
    end

    def answers?
      yield.close
      true
    rescue SystemCallError
      false
    end

    def monotonic_now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
