# frozen_string_literal: true

# The keyword arguments of the ingest, and what it does in Ruby: JSON lines. Loaded by Gyre::Log::Ingest; all else is in
# ext/gyre/log/log_ingest.c and the files below it.

require "gyre/log/ingest/json_lines"
require "gyre/log/ingest/json_stream"
require "gyre/loop"

Gyre::Loop.require_native("the log server")

module Gyre
  module Log
    # See Gyre::Log::Ingest.
    class NativeIngest
      # @param services_limit [Integer] names that are counted
      def initialize(services_limit: 1000)
        setup(services_limit)
      end

      # @return [NativeSink]
      def sink(format: :text, cull: false, raw: false, origin: nil, limit: nil, bound: nil, drops: false, key: "gyre")
        open_sink(format, cull, raw, origin, limit, bound, drops, key)
      end

      # @return [NativeStream, JSONStream]
      def stream(kind, session: nil, limit: nil, framing: :auto, host: nil, pid: nil)
        stream = open_stream(kind, framing, session, limit, host, pid)
        kind == :json ? JSONStream.new(stream) : stream
      end

      # @return [nil]
      def datagram(kind, bytes, time_ns)
        case kind
        when :syslog then syslog_datagram(bytes, time_ns)
        when :json
          service, severity, message = JSONLines.parse(bytes)
          log(service, severity, message, time_ns) if service
        else raise ArgumentError, "no datagrams of kind #{kind.inspect}"
        end
      end

      # @return [NativeSession]
      def session(client_id, last = {})
        open_session(client_id, last)
      end
    end
  end
end
