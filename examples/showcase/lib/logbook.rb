# frozen_string_literal: true

# The showcase's log: a Gyre log server with its own loop and file, clients that log to it, and a
# follower over the network, like `gyre log tail`, which keeps the last lines for the pages. Starts
# with the first request and ends with the process.

require "fileutils"
require "gyre"
require "gyre/log/client"
require "gyre/log/server"
require "gyre/log/viewer"
require "securerandom"
require "tmpdir"

module Showcase
  # May be used from any thread.
  class Logbook
    # A line of the log and its number.
    Line = Struct.new(:number, :text)

    LINES_KEPT = 200
    # The folder with kept files is removed at the end; until then they must not grow without bound.
    ROTATION = { size: "10 MB", keep: 1 }.freeze
    CLOSE_S = 1

    def initialize
      @lines = []
      @number = 0
      @clients = {}
      @lock = Mutex.new
      @news = Gyre::Promise.new # of the next line
    end

    # Returns a Logger for the service, whose records the server acknowledges once they are on the
    # disk.
    def client(service)
      @lock.synchronize do
        start unless @viewer
        @clients[service] ||= Gyre::Log::Client.new(service, port: @port, key: @key, spool: false, when_full: :drop_oldest)
      end
    end

    # Waits for lines after `number` (0: all), at most `timeout_s`. The first line's number shows
    # whether some are gone.
    def lines_after(number, timeout_s)
      news = @news # first, so that it reports everything after the look
      lines = newer(number)
      return lines if lines.any?

      news.wait(timeout: timeout_s)
      newer(number)
    rescue Gyre::TimeoutError
      []
    end

    # Figures of the server, and acknowledged messages.
    def figures
      # Acknowledged messages first: the server's figures, read later, include all of them.
      stats = @lock.synchronize { @clients.values }.map(&:stats)
      status = @viewer.status
      { messages: status["messages"], rate: status["rates"]["10"], logged: stats.sum { |each| each[:logged] },
        acknowledged: stats.sum { |each| each[:acknowledged] } }
    end

    private

    # The key keeps others on this machine out.
    def start
      folder = Dir.mktmpdir("gyre-showcase")
      @key = SecureRandom.hex
      server = Gyre::Log::Server.new(bind: "tcp://127.0.0.1:0", key: @key, signals: false,
                                     default_log: { logfile: File.join(folder, "log"), rotate: ROTATION }).listen
      @port = server.endpoints.first.port
      viewer = Gyre::Log::Viewer.new(@port, key: @key)
      thread = run(server, viewer)
      at_exit { stop(thread, folder) }
      @viewer = viewer
    end

    # Returns once lines are followed: none is missed.
    def run(server, viewer)
      ready = Thread::Queue.new
      thread = Thread.new do
        Gyre.run("log") do |task|
          server.run do
            task.async("follow", transient: true) { viewer.each_line(connected: -> { ready.push(true) }) { |line| keep(line) } }
          end
        end
      ensure
        ready.close
      end
      thread.name = "log server"
      ready.pop || thread.value # raises its error
      thread
    end

    def keep(text)
      @lock.synchronize do
        @lines.push(Line.new(@number += 1, text))
        @lines.shift if @lines.size > LINES_KEPT
      end
      told, @news = @news, Gyre::Promise.new
      told.resolve
    end

    def newer(number)
      @lock.synchronize do
        number = 0 if number > @number # seen before this process began
        @lines.last([@number - number, LINES_KEPT].min)
      end
    end

    def stop(thread, folder)
      @clients.each_value { |client| client.close(CLOSE_S) }
      thread.kill.join # Gyre.run stops its tasks
      FileUtils.rm_rf(folder)
    end
  end
end
