# frozen_string_literal: true

# Cuts connections' bytes into messages; checks, routes, filters, culls, escapes and formats them
# straight into sinks: buffers of finished lines, one for each output. Called by the log server for
# each read. Uses no sockets, files or clock: the time of arrival, in nanoseconds since 1970, is a
# parameter. C does the work (ext/gyre/log/log_ingest.c); this file has the keyword arguments and
# JSON lines. test/oracle/log has a Ruby copy for comparison.
#
#   Ingest.new(services_limit: 1000)
#   sink(format: :text, cull: false, raw: false, origin: nil, limit: nil, bound: nil, drops: false, key: "gyre")
#       → sink
#       format  :text, :json or :redis (see ext/gyre/log/log_line.h); key: the stream's name for :redis
#       cull    a message that equals the one before becomes "Last message repeated N times"
#       raw     a text line has the message's bytes as they came, also a line's end
#       origin  whether lines have host and pid of their connection: in text before the message, else as fields; nil: not in text
#       limit   bytes; a line that would go beyond it is dropped and counted. For a tap: no client waits for what is in it
#       bound   bytes in it, with those taken and not written; with more it is full, and see "full" below
#       drops   what comes while it is full is dropped and counted, and no client waits for what is in it
#   route(service, severities, sinks)   nil for service: all that have no route of their own; nil for severities: all of them.
#       Messages without a route are counted as filtered. A second call for a service replaces the
#       first
#   tap(sink, service = nil), untap(sink)   the sink also gets what is routed, of one service or of all, and names no clients
#   decoder(kind, session: nil, limit: nil, framing: :auto, host: nil, pid: nil) → decoder     one for a connection
#       kind     :analogger (frames after the first), :records, :syslog, :json (cut in C, read by the json library)
#       limit    bytes of a message; of a whole frame for :analogger, which has fewer
#       framing  for :syslog :octet_counting, :lines, or :auto, which looks at each message's first bytes (RFC 6587)
#       host, pid  where its messages come from, as far as that is known: not for :syslog, whose messages have it themselves
#   datagram(kind, bytes, time_ns)      a message of :syslog or :json without a decoder
#   log(service, severity, message, time_ns)
#   crowded?    whether a decoder's message came for a sink that was full, since it was asked last
#   session(client_id, {sink => sequence}) → session     what each sink's output has stored of a client's records; nil: unknown, so
#       the sink gets none of them
#   bytesize    in incomplete messages, and in sinks without a limit, which bound nothing themselves
#   incomplete  of these, in incomplete messages            messages, filtered    counts since the beginning
#   services    {name => count}; beyond services_limit names, messages are counted under "(others)"
#
#   sink:    bytesize, lines: what take would give; dropped: since the beginning
#            take(into = String.new) → [into, {client_id => sequence}], or nil when there is nothing. The sink is empty then. The
#            String given has the lines afterwards and nothing else; a large one that is given again need not be made again
#            written: what was taken is written;  full?;  blocked?: full, and does not drop;  room?: half of the bound is free
#            hit?: as crowded?, of this sink
#   decoder: feed(bytes, time_ns), finish(time_ns) → nil, or a String: what is wrong; it stays wrong
#            deliver(service, severity, message, time_ns): one that was read from a line of JSON
#            rest: the incomplete message, for a decoder that takes this one's place; bytesize: its size; messages: count
#   session: client_id; received: the highest sequence number that has come, 0 before the first
#            stored(sink, sequence): the sink's output has stored its records up to there
#            durable: everything up to this number is stored wherever a route leads it
#            refused?: a record came for a sink whose number is unknown
#
# A full sink still accepts a decoder's messages, up to twice the limit and 16 MB; its reader checks
# `crowded?` and stops reading. Beyond that, the ingest refuses records (`feed` returns the refusal,
# and the client sends them again) and drops and counts messages without a number. Messages from
# senders without backpressure (datagrams, log) are dropped as soon as the sink is full.
#
# A sink skips records with a sequence number up to its last one.

require "gyre/log/ingest/json_lines"
require "gyre/log/ingest/json_decoder"
require "gyre/loop"

module Gyre
  module Log
    class Ingest
      def initialize(services_limit: 1000)
        setup(services_limit)
      end

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

      def session(client_id, last = {})
        open_session(client_id, last)
      end
    end
  end
end
