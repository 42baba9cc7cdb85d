# frozen_string_literal: true

# Debian's PostgreSQL for tests and benchmarks: on a Unix socket in a folder of its own, never as
# root. Nothing of it is left after `close`.
require "fileutils"
require "tmpdir"

module GyreTest
  # A server and its data, until `close`. Its user is gyre, without a password.
  class PostgresServer
    # What root starts it as; PostgreSQL refuses root.
    UNPRIVILEGED = "nobody"

    # Returns the folder of the newest version's programs, where there is one.
    def self.programs
      Dir["/usr/lib/postgresql/*/bin"].select { |folder| File.executable?("#{folder}/initdb") }.max_by { |folder| folder[/\d+/].to_i }
    end

    attr_reader :folder

    def initialize(programs = self.class.programs)
      @programs = programs
      @folder = Dir.mktmpdir("gyre-pg")
      FileUtils.chown(UNPRIVILEGED, nil, @folder) if Process.uid.zero?
      start
    rescue StandardError
      close
      raise
    end

    def close
      if @pid
        Process.kill(:INT, @pid) # PostgreSQL's fast end: sessions are cut
        Process.wait(@pid)
        @pid = nil
      end
      FileUtils.rm_rf(@folder)
    end

    private

    def start
      run("initdb", "-D", data, "-A", "trust", "-U", "gyre", "--no-sync", "--locale=C")
      @pid = Process.spawn(*as_user("postgres", "-D", data, "-k", @folder, "-c", "listen_addresses=", "-c", "fsync=off"), **quiet)
      sleep 0.02 until answers?
    end

    def answers?
      raise "postgres ended at once:\n#{log}" if Process.wait(@pid, Process::WNOHANG)

      system(*as_user("pg_isready", "-q", "-h", @folder), **quiet)
    end

    def run(*command)
      system(*as_user(*command), **quiet) || raise("#{command.first} failed:\n#{log}")
    end

    def as_user(program, *arguments)
      command = ["#{@programs}/#{program}", *arguments]
      Process.uid.zero? ? ["setpriv", "--reuid=#{UNPRIVILEGED}", "--clear-groups", *command] : command
    end

    def quiet = { chdir: @folder, in: File::NULL, out: ["#{@folder}/log", "a"], err: %i[child out] }

    def data = File.join(@folder, "data")

    def log = File.read("#{@folder}/log")
  end
end
