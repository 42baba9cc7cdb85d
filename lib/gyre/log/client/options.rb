# frozen_string_literal: true

# A log client's limits, times, policies and folder of spools. Made by Gyre::Log::Client.

require "gyre/log/client/spools"
require "set"
require "tmpdir"

module Gyre
  module Log
    ClientOptions = Struct.new(:address, :acknowledged, :spool, :spool_limit, :memory_limit, :record_limit, :when_full, :stall_timeout,
                               :flush_timeout, :exit_timeout, :retry_interval, :adoption_interval, :report, keyword_init: true) do
      # The default folder of spools, which survives a restart of the machine.
      def self.default_spool
        state = ENV["XDG_STATE_HOME"]
        return File.join(state, "gyre-log") if state&.start_with?("/")

        folder = ["/var/tmp", Dir.tmpdir].find { |path| File.directory?(path) && File.writable?(path) } || "."
        File.join(folder, "gyre-log-#{Process.euid}")
      end

      def initialize(address, acknowledged:, **options)
        super(address: address, acknowledged: acknowledged, **ClientOptions::DEFAULTS, **options)
        check(:when_full, %i[block drop_oldest raise])
        check(:acknowledged, [true, false, :if_possible])
        raise ArgumentError, "memory_limit is at least #{ClientOptions::MEMORY_LEAST} bytes" if memory_limit < ClientOptions::MEMORY_LEAST

        @reported = Set.new
        self.report = quiet(report)
        self.spool = spool == true ? ClientOptions.default_spool : (File.expand_path(spool) if spool) # a daemon changes its folder
        check_spool
        self.record_limit = [ClientOptions::RECORD_LIMIT, memory_limit, (spool_limit if spool)].compact.min
      end

      def new_spool(identity) = Spools.create(spool, spool_name, identity, **spool_options)

      # Reopens the client's former spool. Returns nil if another process has adopted it.
      def retake_spool(path) = Spools.adopt(path, **spool_options)

      def each_orphan(&block) = Spools.each_orphan(spool, spool_name, **spool_options, &block)

      private

      def check(name, known)
        return if known.include?(self[name])

        raise ArgumentError, "#{name} is #{known[..-2].map(&:inspect).join(", ")} or #{known.last.inspect}, not #{self[name].inspect}"
      end

      # Ignores errors of the reporter, because standard error may be a closed pipe.
      def quiet(report)
        lambda do |text|
          report.call(text)
        rescue StandardError
          nil
        end
      end

      def spool_name = Spools.name_for(address.service, *address.parts, acknowledged ? 2 : 1)

      def spool_options
        # Adopted spools may contain longer records than this client accepts.
        { limit: spool_limit, record_limit: ClientOptions::RECORD_LIMIT, report: method(:report_once) }
      end

      # Checks the folder of spools. Continues without a spool after an error.
      def check_spool
        Ownership.check_parent(spool) if spool && (File.exist?(spool) || File.symlink?(spool))
      rescue SystemCallError => error
        report.call("no spool: #{error.message}; messages wait in memory only")
        self.spool = nil
      end

      # Reports each text about a spool only once.
      def report_once(text) = (report.call(text) if @reported.size < ClientOptions::REPORTS_LIMIT && @reported.add?(text))
    end

    # The default reporter, which writes errors to standard error.
    ClientOptions::REPORT = ->(text) { $stderr.write("gyre log: #{text.chomp}\n") }
    # Maximum bytes of a record; every server accepts records of this length.
    ClientOptions::RECORD_LIMIT = (1 << 20) + 8
    # Minimum of `memory_limit`: room for a few messages.
    ClientOptions::MEMORY_LEAST = 8192
    # Maximum reports about refused or damaged spools.
    ClientOptions::REPORTS_LIMIT = 100
    ClientOptions::DEFAULTS = { spool: true, spool_limit: 1 << 30, memory_limit: 16 << 20, when_full: :block, stall_timeout: 10,
                                flush_timeout: 5, exit_timeout: 5, retry_interval: (0.1..5.0), adoption_interval: 60,
                                report: ClientOptions::REPORT }.freeze
  end
end
