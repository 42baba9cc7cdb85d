# frozen_string_literal: true

# A log server in a thread of this process, with files in a folder of its own and a port that the
# kernel chose; and clients that write bytes to it. For tests of the server, its clients and its
# outputs.
require "socket"
require "stringio"
require "tmpdir"
require "gyre/log/server"
require "gyre/log/wire"

module GyreTest
  # Started by new; `stop` ends it, waits for it and removes the folder.
  class LogServer
    WITHIN_S = 45

    attr_reader :server
    # Returns a folder that goes with the server.
    attr_reader :folder
    attr_reader :path

    # Runs the block with a server, which is stopped afterwards.
    def self.open(**settings)
      server = new(**settings)
      yield server
    ensure
      server&.stop
    end

    def initialize(folder: nil, **settings)
      @keep = !folder.nil?
      @folder = folder || Dir.mktmpdir("gyre-log")
      @path = File.join(@folder, "log")
      @report = StringIO.new
      defaults = { bind: "tcp://127.0.0.1:0", default_log: { logfile: @path }, interval: 0.01, signals: false, report: @report }
      @server = Gyre::Log::Server.new(**defaults, **settings).listen
      serves = Thread::Queue.new
      @thread = Thread.new { @server.run { serves.push(true) } }
      @thread.report_on_exception = false # stop raises it
      @thread.name = "log server"
      Thread.new { @thread.join rescue nil; serves.close }.join(0)
      serves.pop
    end

    def port
      @server.endpoints.first.port
    end

    def connect(endpoint = @server.endpoints.first)
      endpoint.path ? UNIXSocket.new(endpoint.path) : TCPSocket.new(endpoint.host, endpoint.port)
    end

    def client(service = "test", words: "authentication", key: "")
      socket = connect
      socket.write(Gyre::Log::Wire.frame(service, words, key))
      answer = socket.gets
      return socket if answer&.start_with?("accepted")

      socket.close
      raise "the server says #{answer.inspect}"
    end

    # Returns the whole lines of the default log, or another one, without their times.
    def lines(path = @path)
      return [] unless File.exist?(path)

      File.binread(path).force_encoding(Encoding::UTF_8).scrub.scan(/.*\n/).map { |line| line.chomp.sub(%r{\A\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\|}, "") }
    end

    # Returns what the server reported of itself.
    def report
      @report.string
    end

    # Returns whether it still runs.
    def running?
      @thread.alive?
    end

    # Waits until it has ended. One that does not is killed: the next test is not to meet it.
    def wait
      return @thread.value if @thread.join(WITHIN_S)

      where = @thread.backtrace&.first(20)
      @thread.kill.join(10)
      raise "the log server does not end; it said: #{report}; it was in #{where&.join("\n")}"
    end

    # Ends it in order. May be called again.
    def stop
      @server.stop if running?
      wait
    ensure
      FileUtils.rm_rf(@folder) unless @keep
    end
  end
end
