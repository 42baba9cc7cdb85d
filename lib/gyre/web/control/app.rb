# frozen_string_literal: true

# The Rack app for --metrics and the control socket: /metrics for Prometheus, /status for `gyre
# top`; on the control socket, which only its owner reaches, also commands of `gyre ctl`, as POSTs.

require "json"
require "gyre/web/control/metrics"

module Gyre
  module Web
    # Shows snapshots of a server or supervisor.
    class ControlApp
      PAGES = %w[/metrics /status].freeze
      private_constant :PAGES

      # `source.snapshots`: Snapshots by worker; optional `source.ended`: counts of ended workers
      # ({Metrics.add}). `status` returns a Hash. `commands` by path return nil, or why nothing was
      # done.
      def initialize(source, status: method(:status), commands: {})
        @source = source
        @status = status
        @commands = commands
      end

      def call(env)
        path, verb = env.values_at("PATH_INFO", "REQUEST_METHOD")
        return command(path, verb) if @commands.key?(path)
        return respond(404, "there are #{[*PAGES, *@commands.keys].join(", ")}\n") unless PAGES.include?(path)
        return respond(405, "#{path} is read only\n", "allow" => "GET, HEAD") unless %w[GET HEAD].include?(verb)

        path == "/metrics" ? metrics : json(200, @status.call)
      end

      private

      def command(path, verb)
        return json(405, error: "#{path} is a POST") unless verb == "POST"

        reason = @commands[path].call
        reason ? json(409, error: reason) : json(200, done: true)
      end

      def metrics
        ended = @source.ended if @source.respond_to?(:ended)
        respond(200, Metrics.text(@source.snapshots, ended: ended), "content-type" => Metrics::TYPE)
      end

      def status
        { pid: Process.pid, version: VERSION,
          workers: @source.snapshots.map { |name, snapshot| { name: name, pid: snapshot["pid"], snapshot: snapshot } } }
      end

      def json(status, hash) = respond(status, "#{JSON.generate(hash)}\n", "content-type" => "application/json")

      def respond(status, text, headers = {})
        [status, { "content-type" => "text/plain", "cache-control" => "no-store" }.merge(headers), [text]]
      end
    end
  end
end
