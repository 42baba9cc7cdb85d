# frozen_string_literal: true

# Which messages go where: opens the outputs that the settings name, gives each a sink of the
# ingest, and sets the ingest's routes. Called once by the server. It writes nothing.

require "gyre/log/output"
require "gyre/net/values"

module Gyre
  module Log
    # Outputs with their sinks, from `logs` and `default_log`.
    class Routing
      ABANDON_S = 1.0
      # What decides which output it is, beside the file.
      OUTPUT_KEYS = %i[logfile type options format rotate mode owner].freeze

      # @return [Array<Array(Ingest::Sink, Output)>]
      attr_reader :pairs

      # @param ingest [Ingest]
      # @param logs [Array<Hash>] services: Array or nil (all that no other one names), levels:
      #   Array or nil (all), logfile:, type:, options:, cull:, raw:, origin:, format:, rotate:,
      #   when_full:, queue:, spill:
      # @param default_log [String, Hash] where services without a log go: a path, or settings as in
      #   logs
      # @param levels [Array<String>, nil] for logs that name none
      # @param raw [Boolean] where a log sets none
      # @param origin [Boolean, nil] where a log sets none
      # @param queue_bytes_limit [Integer] where a log sets none
      # @param spill_bytes_limit [Integer, nil] for each that spills
      # @param report [#call] gets the outputs' errors
      # @raise [ArgumentError] names what is wrong
      def initialize(ingest, logs:, default_log:, levels: nil, raw: false, origin: nil, queue_bytes_limit: nil, spill_bytes_limit: nil,
                     report: nil)
        @levels, @raw, @origin, @report = levels, raw, origin, report
        @queue_bytes_limit, @spill_bytes_limit = queue_bytes_limit, spill_bytes_limit
        @pairs = []
        @sinks_of = Hash.new { |sinks, service| service ? sinks[nil] : [] }
        logs = logs.map { |log| complete(log) }
        default_log = { logfile: default_log } unless default_log.is_a?(Hash)
        logs.push(complete(default_log)) unless logs.any? { |log| log[:services].nil? }
        sinks = make_sinks(ingest, logs)
        logs.zip(sinks) { |log, sink| (log[:services] || [nil]).each { |service| route(ingest, service, log[:levels], sink) } }
      rescue StandardError
        close
        raise
      end

      # @return [Array<Output>]
      def outputs = @pairs.map(&:last)

      # @return [Array<Ingest::Sink>]
      def sinks = @pairs.map(&:first)

      # @return [Integer] how many of the outputs are files
      def files = outputs.count { |output| Output.file?(output) }

      # @param service [String, nil] nil: any
      # @return [Array<Ingest::Sink>] where its messages go
      def sinks_of(service) = service ? @sinks_of[service.b] : sinks

      # What each output has stored of a client, by sinks.
      #
      # @param client_id [String]
      # @param service [String, nil] only the outputs of this one are needed
      # @return [Hash{Sink => Integer, nil}] nil: not asked for, or not available
      # @raise [Output::Unavailable] a needed one is not available
      def stored(client_id, service = nil)
        needed = sinks_of(service)
        @pairs.to_h { |sink, output| [sink, stored_in(output, client_id, needed.include?(sink))] }
      end

      # @param service [String, nil]
      # @return [Boolean] whether other servers write to an output of this one as well
      def shared?(service = nil)
        needed = sinks_of(service)
        @pairs.any? { |sink, output| output.shared? && needed.include?(sink) }
      end

      # @param abandon [Boolean] when one cannot write: its close would wait as well, in a thread
      #   that ends with the process
      def close(abandon: false)
        return outputs.each(&:close) unless abandon

        outputs.map { |output| Thread.new { output.close } }.each { |thread| thread.join(ABANDON_S) }
      end

      private

      def route(ingest, service, levels, sink)
        @sinks_of[service&.b] = [sink]
        ingest.route(service, levels, [sink])
      end

      def stored_in(output, client_id, needed)
        output.stored_by(client_id) if needed || !output.shared?
      rescue Output::Unavailable
        raise if needed
      end

      def complete(log)
        services = log[:services] && Array(log[:services]).map(&:to_s)
        when_full = Values.check(Output::WHEN_FULL, log[:when_full] || "block", name: "when_full")
        { type: nil, options: nil, format: :text, cull: false, rotate: nil }
          .merge(levels: @levels, raw: @raw, origin: @origin).merge(log.compact).merge(services: services, when_full: when_full)
      end

      # One for each output: what several logs write into one file is in order, and a client's
      # records are counted together. It is culled or raw only if all of them are.
      def make_sinks(ingest, logs)
        made = logs.group_by { |log| destination(log) }.transform_values do |group|
          key = group.first[:services] ? "logfile" : "default_log"
          output = Output.open({ **group.first.slice(*OUTPUT_KEYS), **spill(group) }, key: key, report: @report)
          flags = %i[cull raw].to_h { |name| [name, group.all? { |log| log[name] }] }
          flags[:origin] = group.first[:origin] if group.map { |log| log[:origin] }.uniq.size == 1
          sink = ingest.sink(**output.sink_options, **queue(group), **flags)
          @pairs.push([sink, output])
          sink
        end
        logs.map { |log| made.fetch(destination(log)) }
      end

      def queue(group)
        { bound: group.filter_map { |log| log[:queue] }.max || @queue_bytes_limit, drops: group.all? { |log| log[:when_full] == "drop" } }
      end

      # It spills if one of them does.
      def spill(group)
        spills = group.any? { |log| log[:when_full] == "spill" }
        folders = group.filter_map { |log| log[:spill] }.uniq
        raise ArgumentError, "spill: #{group.first[:logfile]} has several: #{folders.join(", ")}" if folders.size > 1

        { when_full: ("spill" if spills), spill: folders.first, spill_bytes_limit: @spill_bytes_limit }
      end

      def destination(log)
        [Output::Remote.same_file(log[:logfile].to_s), log[:options], log[:type].to_s == "socket"]
      end
    end
  end
end
