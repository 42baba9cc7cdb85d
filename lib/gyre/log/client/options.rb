# frozen_string_literal: true

# A log client's options: limits, times, policies, and where its spools are. Made by
# Gyre::Log::Client, checked here, read by its sender. Immutable.

require "gyre/log/client/spool"
require "set"
require "tmpdir"

module Gyre
  module Log
    # See the head of this file.
    class ClientOptions
      # What a spool holds, in memory and on disk.
      MEMORY_LIMIT = 16 << 20
      SPOOL_LIMIT = 1 << 30
      # Bytes of a record, as servers take them.
      RECORD_LIMIT = (1 << 20) + 8
      # Less memory would not hold a handful of messages.
      MEMORY_LEAST = 8192
      WHEN_FULL = %i[block drop_oldest raise].freeze
      # Different texts about spools that are refused or damaged.
      REPORTS_LIMIT = 100
      private_constant :MEMORY_LEAST, :WHEN_FULL, :REPORTS_LIMIT

      # Default reporter; receives errors only.
      REPORT = ->(text) { $stderr.write("gyre log: #{text.chomp}\n") }

      # @return [Address]
      attr_reader :address
      # @return [Boolean, :if_possible]
      attr_reader :acknowledged
      # @return [String, nil] folder
      attr_reader :spool
      # @return [Integer] bytes
      attr_reader :spool_limit, :memory_limit, :record_limit
      # @return [Symbol]
      attr_reader :when_full
      # @return [Numeric] seconds
      attr_reader :stall_timeout, :flush_timeout, :exit_timeout, :adoption_interval
      # @return [Range, Array] seconds
      attr_reader :retry_interval
      # @return [#call]
      attr_reader :report

      # Where spools are unless it is configured otherwise: a place that outlives a restart of the
      # machine.
      # @return [String] in XDG_STATE_HOME, if that is set (XDG Base Directory Specification), or
      #   /var/tmp
      def self.default_spool
        state = ENV["XDG_STATE_HOME"]
        return File.join(state, "gyre-log") if state&.start_with?("/")

        folder = ["/var/tmp", Dir.tmpdir].find { |path| File.directory?(path) && File.writable?(path) } || "."
        File.join(folder, "gyre-log-#{Process.euid}")
      end

      # @raise [ArgumentError]
      def initialize(address, acknowledged:, spool: true, spool_limit: SPOOL_LIMIT, memory_limit: MEMORY_LIMIT, when_full: :block,
                     stall_timeout: 10, flush_timeout: 5, exit_timeout: 5, retry_interval: (0.1..5.0), adoption_interval: 60, report: REPORT)
        raise ArgumentError, "when_full is one of #{WHEN_FULL.map(&:inspect).join(", ")}" unless WHEN_FULL.include?(when_full)
        unless [true, false, :if_possible].include?(acknowledged)
          raise ArgumentError, "acknowledged is true, false or :if_possible, not #{acknowledged.inspect}"
        end
        raise ArgumentError, "memory_limit is at least #{MEMORY_LEAST} bytes" if memory_limit < MEMORY_LEAST

        @address = address
        @acknowledged = acknowledged
        @spool = spool == true ? ClientOptions.default_spool : (File.expand_path(spool) if spool) # a daemon changes its folder
        @spool_limit = spool_limit
        @memory_limit = memory_limit
        @when_full = when_full
        @stall_timeout = stall_timeout
        @flush_timeout = flush_timeout
        @exit_timeout = exit_timeout
        @retry_interval = retry_interval
        @adoption_interval = adoption_interval
        @report = lambda do |text|
          report.call(text)
        rescue StandardError
          nil # standard error is closed (a pipe without a reader, for example); records must not suffer from that
        end
        @reported = Set.new
        check_spool
        @record_limit = [RECORD_LIMIT, memory_limit, (spool_limit if @spool)].compact.min
      end

      # @param identity [Identity]
      # @return [Spool]
      # @raise [SystemCallError]
      def new_spool(identity)
        Spool::Folders.create(@spool, spool_name, identity.client_id, secret: identity.secret, **spool_options)
      end

      # @param identity [Identity] of the spool that was left to the next process
      # @return [Spool, nil] nil where another one has it, or there is none
      def retake_spool(identity)
        Spool::Folders.retake(@spool, spool_name, identity.client_id, **spool_options) if @spool
      rescue SystemCallError
        nil
      end

      # Takes over what others left behind.
      # @yieldparam spool [Spool]
      def each_orphan(&block) = Spool::Folders.each_orphan(@spool, spool_name, **spool_options, &block)

      private

      def spool_name = Spool::Folders.name_for(address.service, *address.parts, acknowledged ? 2 : 1)

      def spool_options
        # One that was left behind may hold longer records than this client takes.
        { limit: @spool_limit, record_limit: RECORD_LIMIT, report: method(:report_once) }
      end

      # One that cannot be had is no reason not to log.
      def check_spool
        Spool::Trust.folder(@spool) if @spool && (File.exist?(@spool) || File.symlink?(@spool))
      rescue SystemCallError => error
        @report.call("there is no spool: #{error.message}; messages wait in memory only")
        @spool = nil
      end

      # A spool that is refused is found again each time that spools are looked for.
      def report_once(text)
        @report.call(text) if @reported.size < REPORTS_LIMIT && @reported.add?(text)
      end
    end
  end
end
