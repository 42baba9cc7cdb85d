# frozen_string_literal: true

# The log servers that can be measured: how each is configured and started, in a folder of its own
# below tmp/bench that is removed with all it wrote. Each writes every message into one file, with
# repeated ones kept. Used by bench/log.

require "yaml"
require_relative "machine"
require_relative "server"

module Bench
  # One log server under test.
  class LogServer
    SERVICE = "bench"
    # What one sample may write, and then some.
    FREE_BYTES = 6 * 1024**3

    # name => what the report has about it
    NAMES = {
      "gyre" => "Gyre",
      "gyre-0.1" => "Gyre, interval 0.1 s",
      "analogger" => "Analogger",
      "rsyslog" => "rsyslog, as it comes",
      "rsyslog-tuned" => "rsyslog, tuned",
      "rsyslog-sync" => "rsyslog, sync on"
    }.freeze

    # rsyslog's default template writes time, host, tag and message. Tuned: one receiving thread,
    # large batches, large writes, which keeps a connection's messages in order, too.
    RSYSLOG = {
      "rsyslog" => ["", "", ""],
      "rsyslog-tuned" => [%( threads="1"), %( queue.type="fixedArray" queue.size="250000" queue.dequeueBatchSize="4096"),
                          %( ioBufferSize="64k")],
      "rsyslog-sync" => ["", "", %( sync="on")]
    }.freeze

    attr_reader :name, :file

    # Gives the block a server that runs; stops it and removes its folder afterwards.
    def self.run(name)
      server = new(name)
      server.start
      yield server
    rescue Problem => e
      raise Problem, [e.message, *server&.complaints].join("; ")
    ensure
      server&.stop
    end

    def self.rsyslog_version
      IO.popen([Setup.program("rsyslogd"), "-v"], &:read)[/\Arsyslogd\s+([\d.]+)/, 1]
    end

    def initialize(name)
      @name = name
      @folder = File.join(WORK, "log-#{name}")
      @file = File.join(@folder, "bench.log")
      environment = name.start_with?("rsyslog") ? {} : Setup.gem_environment.merge(Setup.yjit_environment)
      @server = Server.new("log-#{name}", environment) { |port| command(port) }
    end

    def start
      FileUtils.rm_rf(@folder)
      FileUtils.mkdir_p(@folder)
      free = IO.popen(["df", "--output=avail", "-B1", @folder], &:readlines).last.to_i
      raise Problem, "only #{free / 1024**2} MB free on the disk" if free < FREE_BYTES

      @server.start
    end

    def stop
      @server.stop
    ensure
      FileUtils.rm_rf(@folder)
    end

    def port = @server.port
    def tree = @server.tree

    def syslog_port
      @syslog_port || port
    end

    def bytes
      File.size?(@file) || 0
    end

    # Returns what the server has logged about itself, but for its start.
    def complaints = @server.alive? ? @server.printed.lines(chomp: true).drop(1).last(2) : []

    # Returns a folder for what else is written in this sample.
    def folder(name)
      File.join(@folder, name).tap { |path| FileUtils.mkdir_p(path) }
    end

    private

    def command(port)
      case @name
      when /gyre/ then Setup.ruby_command(File.join(ROOT, "exe/gyre"), "log", "-c", configuration(port))
      when "analogger" then Setup.ruby_command("analogger", "-c", configuration(port))
      else [Setup.program("rsyslogd"), "-n", "-f", rsyslog_configuration(port), "-i", File.join(@folder, "pid")]
      end
    end

    # Analogger's configuration, with its usual interval of a second unless the name has another.
    # Ours adds a port for syslog.
    def configuration(port)
      log = { "service" => SERVICE, "logfile" => @file, "cull" => false, "levels" => %w[debug info warn error fatal] }
      settings = { "host" => "127.0.0.1", "port" => port, "interval" => @name[/[\d.]+\z/]&.to_f || 1, "logs" => [log] }
      if @name.start_with?("gyre")
        @syslog_port = Server.free_port
        settings["inputs"] = [{ "type" => "syslog", "bind" => "tcp://127.0.0.1:#{@syslog_port}" }]
      end
      write("log.yml", YAML.dump(settings))
    end

    def rsyslog_configuration(port)
      receiving, queue, writing = RSYSLOG.fetch(@name)
      write("rsyslog.conf", <<~CONF)
        global(workDirectory="#{@folder}")
        module(load="imptcp"#{receiving})
        input(type="imptcp" port="#{port}" address="127.0.0.1" ruleset="log")
        ruleset(name="log"#{queue}) { action(type="omfile" file="#{@file}"#{writing}) }
      CONF
    end

    def write(name, text)
      File.join(@folder, name).tap { |path| File.write(path, text) }
    end
  end
end
