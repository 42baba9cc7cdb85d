# frozen_string_literal: true

# A small HTTP server for --metrics on the same loop as a web server or supervisor. Its requests
# appear in no log or count of the app.

require "gyre/http"
require "gyre/net/endpoint"
require "json"
require "gyre/web/control/metrics"

module Gyre
  module Web
    class ControlServer
      DEFAULT_PORT = 9394
      LIMITS = { connections_limit: 64, body_bytes_limit: 0, first_byte_timeout_s: 10, head_timeout_s: 10, write_timeout_s: 10 }.freeze

      # Parses an address of --metrics; the default host is this machine. Raises ArgumentError.
      def self.endpoint(address)
        address = address.sub(/\A:(?=\d+\z)/, "") if address.is_a?(String)
        Endpoint.parse(address, host: "127.0.0.1", port: DEFAULT_PORT)
      end

      # `listeners`: open Listeners; `bind`: further addresses.
      def initialize(app, log:, bind: [], listeners: [])
        @app = app
        @endpoints = Array(bind).map { |address| self.class.endpoint(address) }
        @log = log
        @listeners = listeners.dup
      end

      # Opens all sockets or none.
      def listen
        @listeners.concat(@endpoints.shift.bind) until @endpoints.empty?
        self
      rescue SystemCallError, SocketError
        close
        raise
      end

      # Serves until {#close}.
      def start
        listen
        @http = @listeners.any? && HTTP::Server.new(@app, listeners: @listeners, limits: HTTP::Limits.new(**LIMITS), log: @log).start
        self
      end

      # Serves in a task until the end of the loop, which would wait for a server that is open.
      def serve
        Task.current.async("control", transient: true) do
          start
          sleep
        ensure
          close
        end
      end

      def urls = @listeners.map(&:url)

      # Closes all sockets. May be called again.
      def close
        @http.close if @http
        @listeners.each(&:close)
      end
    end

    # The response to a command of the control socket: its status and values.
    ControlResult = Struct.new(:status, :values) do
      # Makes commands of steps by path, each of which returns nil, or why it failed.
      def self.commands(steps)
        steps.transform_values do |step|
          ->(_env) { (reason = step.call) ? failed(reason) : new(200, { done: true }) }
        end
      end

      def self.failed(reason, status = 409) = new(status, { error: reason })
    end

    # The Rack app for --metrics and for the control socket. Responds to /metrics (Prometheus) and
    # /status (`gyre top`) with snapshots of a server or supervisor. On the control socket, which
    # only its owner can open, it also takes the commands of `gyre ctl` as POST requests.
    class ControlApp
      PAGES = %w[/metrics /status].freeze

      # `source.snapshots` returns Snapshots by worker; `source.ended`, which is optional, returns
      # counts of ended workers ({Metrics.add}). `status` returns a Hash. `commands`: by path; each
      # is called with the request's env and returns a ControlResult.
      def initialize(source, status: method(:status), commands: {})
        @source = source
        @status = status
        @commands = commands
      end

      def call(env)
        path, verb = env.values_at("PATH_INFO", "REQUEST_METHOD")
        return command(path, verb, env) if @commands.key?(path)
        return respond(404, "there are #{[*PAGES, *@commands.keys].join(", ")}\n") unless PAGES.include?(path)
        return respond(405, "#{path} is read only\n", "allow" => "GET, HEAD") unless %w[GET HEAD].include?(verb)

        path == "/metrics" ? metrics : json(200, @status.call)
      end

      private

      def command(path, verb, env)
        return json(405, error: "#{path} is a POST") unless verb == "POST"

        json(*@commands[path].call(env))
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

      def respond(status, text, headers = {}) = [status, { "content-type" => "text/plain", "cache-control" => "no-store" }.merge(headers), [text]]
    end
  end
end
