# frozen_string_literal: true

# The Rack app behind --metrics and the control socket: /metrics for Prometheus, /status for `gyre
# top`. It shows what the source's snapshots have and changes nothing.

require "json"
require "gyre/web/metrics"

module Gyre
  module Web
    # See the head of this file.
    class Control
      JSON_TYPE = "application/json"
      private_constant :JSON_TYPE

      # @param source [#snapshots] snapshots returns {worker's name => Hash} (see {Snapshot}); where
      #   it responds to `ended`, that is the counts of workers that have ended (see {Metrics.add})
      def initialize(source)
        @source = source
      end

      # @param env [Hash] of Rack
      # @return [Array(Integer, Hash, Array<String>)]
      def call(env)
        path = env["PATH_INFO"]
        return respond(404, "there are /metrics and /status\n") unless %w[/metrics /status].include?(path)
        return respond(405, "#{path} is read only\n", "allow" => "GET, HEAD") unless %w[GET HEAD].include?(env["REQUEST_METHOD"])

        path == "/metrics" ? metrics(env["HTTP_ACCEPT"]) : respond(200, "#{JSON.generate(status)}\n", "content-type" => JSON_TYPE)
      end

      private

      def metrics(accept)
        open_metrics = Metrics.open_metrics?(accept)
        ended = @source.ended if @source.respond_to?(:ended)
        text = Metrics.text(@source.snapshots, ended: ended, open_metrics: open_metrics)
        respond(200, text, "content-type" => open_metrics ? Metrics::OPEN_METRICS : Metrics::TEXT)
      end

      def status
        { pid: Process.pid, version: VERSION,
          workers: @source.snapshots.map { |name, snapshot| { name: name, pid: snapshot["pid"], snapshot: snapshot } } }
      end

      def respond(status, text, headers = {})
        [status, { "content-type" => "text/plain", "cache-control" => "no-store" }.merge(headers), [text]]
      end
    end
  end
end
