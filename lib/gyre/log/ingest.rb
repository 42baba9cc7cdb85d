# frozen_string_literal: true

# Cuts connections' bytes into messages, and routes, filters, culls, escapes and formats them into
# sinks: buffers of finished lines, one per output. Called by the log server for each read. Uses no
# sockets, files or clock: the arrival time (ns since 1970) is a parameter. C does the work
# (ext/gyre/log/log_ingest.c); test/oracle/log has a Ruby copy for comparison.
#
#   --- Ingest.new(services_limit: 1000) ---
#   sink(format: :text, cull: false, raw: false, origin: nil, limit: nil, bound: nil, drops: false, key: "gyre")
#       → sink
#   format   :text, :json or :redis (ext/gyre/log/log_line.h); key: the stream's name for :redis
#   cull     repeated messages become "Last message repeated N times"
#   raw      messages stay unescaped, with line ends
#   origin   whether lines have host and pid of their connection (text: before the message; else as fields); nil: not in text
#   limit    bytes of lines; further lines are dropped and counted; for taps
#   bound    bytes in the sink, with taken and unwritten ones, beyond which it is full
#   drops    a full sink drops and counts lines, and holds up no client
#   route(service, severities, sinks)   replaces the service's route; nil: all other services, all severities; messages without a
#       route are counted as filtered
#   tap(sink, service = nil), untap(sink)   adds a sink to the routes of one service or of all
#   decoder(kind, session: nil, limit: nil, framing: :auto, host: nil, pid: nil) → decoder of one connection
#   kind     :analogger (frames after the first), :records, :syslog, :json (cut in C, parsed in Ruby)
#   limit    bytes of a message; for :analogger of a frame
#   framing  for :syslog: :octet_counting, :lines, or :auto, by each message's first bytes (RFC 6587)
#   host, pid  of the peer, if known; syslog messages have their own
#   datagram(kind, bytes, time_ns)      one message of :syslog or :json without a decoder
#   log(service, severity, message, time_ns)
#   crowded?    whether a decoder's message met a full sink since the last call
#   session(client_id, {sink => sequence}) → session     stored numbers by sink; nil: unknown, and the sink refuses records
#   bytesize    of incomplete messages and of sinks without a bound;   incomplete: of the former;   messages, filtered: counts
#   services    {name => count}; further names than services_limit count as "(others)"
#
#   sink:    bytesize, lines: what take would return; dropped: count
#   take(into = String.new) → [into, {client_id => sequence}], or nil; replaces the String's content and reuses its memory
#   written: the taken bytes are written;  full?;  blocked?: full, without drops;  room?: half of the bound is free
#   hit?: as crowded?, for this sink
#   decoder: feed(bytes, time_ns), finish(time_ns) → nil, or the fault as a String, which stays
#   deliver(service, severity, message, time_ns): adds a message parsed from a line of JSON
#   bytesize: of the incomplete message; messages: count
#   session: client_id; received: the highest sequence number so far, or 0
#   stored(sink, sequence): the sink's output has stored records up to this number
#   durable: every output of a route has stored records up to this number
#   refused?: a record came for a sink with an unknown number
#
# Full sinks accept a decoder's messages up to twice the limit plus 16 MB; the reader checks
# `crowded?` and stops. Beyond that, numbered records are refused, to be sent again, and others
# dropped and counted. Messages given to `datagram` or `log` are dropped as soon as the sink is
# full. A sink skips records with numbers that it has.

require "gyre/log/ingest/json_lines"
require "gyre/loop"

module Gyre
  module Log
    class Ingest
      def initialize(services_limit: 1000) = setup(services_limit)

      def sink(format: :text, cull: false, raw: false, origin: nil, limit: nil, bound: nil, drops: false, key: "gyre")
        open_sink(format, cull, raw, origin, limit, bound, drops, key)
      end

      def decoder(kind, session: nil, limit: nil, framing: :auto, host: nil, pid: nil)
        decoder = open_decoder(kind, framing, session, limit, host, pid)
        kind == :json ? JSONDecoder.new(decoder) : decoder
      end

      def datagram(kind, bytes, time_ns)
        case kind
        when :syslog then syslog_datagram(bytes, time_ns)
        when :json
          service, severity, message = JSONLines.parse(bytes)
          log(service, severity, message, time_ns) if service
        else raise ArgumentError, "no datagrams of kind #{kind.inspect}"
        end
      end

      def session(client_id, last = {}) = open_session(client_id, last)
    end
  end
end
