# frozen_string_literal: true

# Opens the outputs, makes a sink for each, and sets the ingest's routes. Made by Gyre::Log::Server.

require "gyre/log/output"

module Gyre
  module Log
    class Routing
      ABANDON_S = 1.0
      # Settings of a log that belong to its output.
      OUTPUT_KEYS = (Output::SETTINGS.names - %i[when_full spill]).freeze

      attr_reader :pairs

      # Each log has services (nil: all other services), levels (nil: all) and an output's settings.
      # The keywords after `default_log` are for logs that do not set them. Raises ArgumentError.
      def initialize(ingest, logs:, default_log:, levels: nil, raw: false, origin: nil, queue_bytes_limit: nil, spill_bytes_limit: nil,
                     report: nil)
        @levels, @raw, @origin, @report = levels, raw, origin, report
        @queue_bytes_limit = queue_bytes_limit
        @spill_limit = { spill_bytes_limit: spill_bytes_limit }.compact
        @pairs = []
        @sinks_of = Hash.new { |sinks, service| service ? sinks[nil] : [] }
        logs = logs.map { |log| complete(log) }
        default_log = { logfile: default_log } unless default_log.is_a?(Hash)
        logs.push(complete(default_log)) unless logs.any? { |log| log[:services].nil? }
        sinks = make_sinks(ingest, logs)
        route(ingest, logs.zip(sinks))
        share(:concluded, :take_over)
      rescue StandardError
        close
        raise
      end

      def outputs = @pairs.map(&:last)

      def sinks = @pairs.map(&:first)

      def files = log_files.size

      # Called at an orderly end, when everything is stored: each log file then has the numbers of
      # all, because the next start may give a service another file.
      def conclude = share(:clients, :conclude)

      # Returns all sinks if `service` is nil.
      def sinks_of(service) = service ? @sinks_of[service.b] : sinks

      # Returns {sink => last stored number of the client}; the number is nil if the output is
      # unavailable. Raises Output::Unavailable if an output of the service is unavailable. If
      # `service` is nil, no output may be unavailable.
      def stored(client_id, service)
        needed = sinks_of(service)
        @pairs.to_h { |sink, output| [sink, stored_in(output, client_id, needed.include?(sink))] }
      end

      # If `abandon` is true, closes outputs in threads, which end with the process at the latest.
      def close(abandon: false)
        return outputs.each(&:close) unless abandon

        outputs.map { |output| Thread.new { output.close } }.each { |thread| thread.join(ABANDON_S) }
      end

      private

      def log_files = outputs.grep(Output::FileOutput)

      # Gives all log files the clients' highest numbers that one of them tells.
      def share(telling, taking)
        clients = log_files.filter_map(&telling).reduce({}) { |all, some| all.merge(some) { |_, *both| both.max } }
        log_files.each { |file| file.public_send(taking, clients) } unless clients.empty?
      end

      # A service may be in several logs.
      def route(ingest, logs)
        routes = Hash.new { |all, key| all[key] = [] } # [service, levels] => sinks
        logs.each { |log, sink| (log[:services] || [nil]).each { |service| routes[[service, log[:levels]]] |= [sink] } }
        routes.each do |(service, levels), sinks|
          @sinks_of[service&.b] = @sinks_of.fetch(service&.b, []) | sinks
          ingest.route(service, levels, sinks)
        end
      end

      def stored_in(output, client_id, needed)
        output.stored_by(client_id)
      rescue Output::Unavailable
        raise if needed
      end

      def complete(log)
        services = log[:services] && Array(log[:services]).map(&:to_s)
        { levels: @levels, raw: @raw, origin: @origin, **log.compact, services: services, when_full: when_full(log) }
      end

      def when_full(log)
        Output::SETTINGS[:when_full].check(log[:when_full] || "block")
      rescue ArgumentError => error
        raise ArgumentError, "when_full: #{error.message}"
      end

      # Makes one sink per output. Logs with the same file share a sink, so that lines stay in order
      # and a client's records are counted together. The sink culls, or writes raw, only if all its
      # logs do.
      def make_sinks(ingest, logs)
        made = logs.group_by { |log| destination(log) }.transform_values do |group|
          key = group.first[:services] ? "logfile" : "default_log"
          output = Output.open({ **group.first.slice(*OUTPUT_KEYS), **spill(group) }, key: key, report: @report, **@spill_limit)
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

      # Returns an output's spill settings. The output spills if one of its logs does.
      def spill(group)
        spills = group.any? { |log| log[:when_full] == "spill" }
        folders = group.filter_map { |log| log[:spill] }.uniq
        raise ArgumentError, "spill: #{group.first[:logfile]} has several: #{folders.join(", ")}" if folders.size > 1

        { when_full: ("spill" if spills), spill: folders.first }
      end

      def destination(log) = [Output.same_file(log[:logfile].to_s), log[:options], log[:type].to_s == "socket"]
    end
  end
end
