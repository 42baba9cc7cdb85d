# frozen_string_literal: true

# The showcase's log: a Gyre log server with a loop and a file of its own, clients that log to it,
# and a follower by the network, as `gyre log tail` does, and keeps the last lines for the pages. It
# begins with the first request and goes with the process.

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
    # One line of the log, and which one it is.
    Line = Struct.new(:number, :text)

    LINES_KEPT = 200
    # Kept files are removed together with the folder; until then they must not grow without end.
    ROTATION = { size: "10 MB", keep: 1 }.freeze
    CLOSE_S = 1

    def initialize
      @lines = []
      @number = 0
      @clients = {}
      @lock = Mutex.new
      @news = Gyre::Promise.new # of the next line
    end

    # @param service [String] under which name
    # @return [Gyre::Log::Client] a Logger, whose records the server acknowledges when they are on
    #   the disk
    def client(service)
      @lock.synchronize do
        start unless @viewer
        @clients[service] ||= Gyre::Log::Client.new(service, port: @port, key: @key, spool: false, when_full: :drop_oldest)
      end
    end

    # Waits for lines that are newer than one that was seen.
    #
    # @param number [Integer] of that one; 0: none
    # @param timeout_s [Numeric]
    # @return [Array<Line>] none when the time is over; the first one's number shows whether some
    #   are not there any more
    def lines_after(number, timeout_s)
      news = @news # first: so it reports whatever comes after the look
      lines = newer(number)
      return lines if lines.any?

      news.wait(timeout: timeout_s)
      newer(number)
    rescue Gyre::TimeoutError
      []
    end

    # @return [Hash{Symbol => Object}] what the server reports of itself, and how much it has
    #   acknowledged
    def figures
      # First what is acknowledged: of that the server's figures, which come later, tell all.
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

    # Returns when lines are followed: none is missed.
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
      ready.pop || thread.value # raises what was wrong
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
        number = 0 if number > @number # it was seen before this process began
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
