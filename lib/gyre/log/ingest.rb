# frozen_string_literal: true

# Cuts received bytes into messages, and routes, filters, culls, escapes and formats the messages
# into sinks: buffers of finished lines, one per output. Called by the log server for each read.
# Uses no sockets, files or clock: the arrival time (ns since 1970) is a parameter. Written in C
# (ext/gyre/log/log_ingest.c); test/oracle/log has a Ruby copy for comparison.
#
#   --- Ingest.new(services_limit: 1000) ---
#   sink(format: :text, cull: false, raw: false, origin: nil, limit: nil, bound: nil, drops: false, key: "gyre")
#       → sink
#   format   :text, :json or :redis (ext/gyre/log/log_line.h); key: the stream's name for :redis
#   cull     repeated messages become "Last message repeated N times"
#   raw      messages are not escaped and keep their line ends
#   origin   whether lines state where they come from; nil: yes, in :text only what syslog states
#   limit    maximum bytes of lines, for taps; further lines are dropped and counted
#   bound    bytes beyond which the sink is full, including taken lines that are not written
#   drops    a full sink drops and counts lines, and no client waits for it
#   route(service, severities, sinks)   replaces a service's route; nil: all other services, all
#       severities. Messages that have no route are counted as filtered.
#   tap(sink, service = nil), untap(sink)   adds or removes a sink for one service or all services
#   decoder(kind, session: nil, limit: nil, framing: :auto, host: nil, pid: nil) → decoder of one connection
#   kind     :analogger (frames after the first), :records, :syslog, :json (cut in C, parsed in Ruby)
#   limit    maximum bytes of a message, or of a frame for :analogger
#   framing  of :syslog (RFC 6587): :octet_counting, :lines, :zero, or :auto, which decides per
#       message
#   host, pid  of the peer, if known; messages of syslog may state their own, and a facility
#   datagram(kind, bytes, time_ns, host = nil)   adds one message of :syslog or :json
#   log(service, severity, message, time_ns, time_us = nil, host = nil)   adds a message, which was
#       logged at time_us
#   crowded?    whether a decoder's message found a full sink since the last call
#   session(client_id, {sink => sequence}) → session     with the stored numbers; a sink refuses
#       records if its number is nil
#   bytesize    bytes of incomplete messages and of sinks that have no limit
#   incomplete  bytes of incomplete messages;   messages, filtered: counts
#   services    {name => count}; names beyond services_limit count as "(others)"
#
#   --- a sink ---  bytesize, lines: bytes and number of its lines; dropped: number of dropped lines
#   take(into = String.new) → [into, {client_id => sequence}], or nil; overwrites the String
#   written: the taken bytes are written;  full?;  blocked?: full, and drops is false
#   room?: half of the bound is free;  hit?: like crowded?, for this sink
#   --- a decoder ---  feed(bytes, time_ns), finish(time_ns) → nil, or a permanent fault as a String
#   deliver(service, severity, message, time_ns, time_us = nil): adds a message of a line of JSON
#   bytesize: bytes of the incomplete message; messages: count
#   overlong: number of messages of :syslog and :json that were cut at the limit
#   --- a session ---  client_id; received: the highest sequence number so far, or 0
#   stored(sink, sequence): the sink's output has stored records up to this number
#   durable: every output of a route has stored records up to this number
#   refused?: whether a sink with an unknown number has refused a record
#
# A full sink still accepts a decoder's messages, up to twice its bound plus 16 MB: the reader must
# check `crowded?` and stop. Beyond that, it refuses numbered records, which clients repeat, and
# drops and counts other messages. It drops messages of `datagram` and `log` as soon as it is full.
# A sink skips records whose numbers it has already.

require "gyre/log/ingest/json_lines"
require "gyre/loop"

Gyre::Loop.define_native(:log)

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

      def datagram(kind, bytes, time_ns, host = nil)
        case kind
        when :syslog then syslog_datagram(bytes, time_ns, host)
        when :json
          service, severity, message, time_us = JSONLines.parse(bytes)
          log(service, severity, message, time_ns, time_us, host) if service
        else raise ArgumentError, "no datagrams of kind #{kind.inspect}"
        end
      end

      def session(client_id, last = {}) = open_session(client_id, last)
    end
  end
end
