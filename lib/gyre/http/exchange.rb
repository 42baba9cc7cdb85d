# frozen_string_literal: true

# One request and its response. H1::Exchange and H2::Exchange (C) define the primitives below, which
# Service and Response call. Touches no socket. Has no instance variables: it is a C structure.
#
# HTTP/1 has one exchange at a time for each connection; HTTP/2 has an exchange for each stream.
# Of the states below only SERVING has a fiber. IDLE and FIRST BYTE hold no buffer:
#
#   accepted ─► (PROXY header) ─► (HANDSHAKE, with TLS) ─► FIRST BYTE ─► HEAD ─► (BODY up to
#               limits.body_ahead_bytes_limit, then a place) ─► SERVING ─► IDLE ─► HEAD …
#                  │408        │408/4xx  │  ▲       └ time over, drain, end of the client: closed without a response
#                  ▼           ▼         │  └ a pipelined request that is complete
#               LINGERING ◄────┴─────────┴─► HIJACKED (no longer the server's)
#                  └► closed
#
# The connection runs handler.call(exchange) in a pooled fiber for each complete, refused or late
# head. The handler calls next_request until next_request returns nil. Any exception can interrupt a
# parked primitive; afterwards the connection may be closed. After the exchange's end its methods
# raise IOError or Errno::EPIPE. Any thread may call the methods (see ThreadCalls).
#
# --- requests ---
#   next_request        ends the request and returns the env of the next request (Env.template,
#                       filled in by env.c); nil: the connection is idle, closed or hijacked and
#                       must not be touched. First reads the rest of the former body, up to
#                       limits.unread_body_bytes_limit; closes the connection if there is more.
#                       Responds to a refused head by handler.refused
#   read_body(max)      returns a new BINARY String of 1 to max bytes; nil at the end. Parks until
#                       there are bytes. The first call sends a 100 if the client waits for one.
#                       Raises RequestError (400, 408, 413, 431) or RequestCut, also in later calls
#   interrupt_reader(fiber, exception)   for ThreadCalls: raises in a fiber that waits in read_body
#   trailers            Hash of the trailers, with lower-case names; empty before the body's end
#   hijack              returns a socket, the same one each time, and sets rack.hijack_io. It is the
#                       client's own and leaves the server; or one of a pair (see hijack.h). Call it
#                       before a head is written, or after write_head(…, :raw or :close). Raises
#                       IOError if closed
#   client_gone         Promise: true if the client leaves first, false if the request ends first;
#                       nil after the request's end
#
# Responses: after a network error, or limits.write_timeout_s without progress (WriteTimeout), the
# connection is closed and the error is raised. Header values are Strings or Arrays of Strings. An
# invalid value raises ArgumentError before any byte is sent. Keys with "rack." are omitted. The
# app's content-length, transfer-encoding and connection are omitted unless the framing is :raw. A
# missing date is added. The last head on a connection has "connection: close".
#   write_response(status, headers, body)   sends head and Array of Strings at once. true: the
#                       kernel has all bytes, or the exchange was hijacked; false: nothing was sent,
#                       and Response must send the response
#   write_head(status, headers, framing)    returns the used framing: Integer (content-length), :chunked, :close (ends with the
#                       connection), :raw (nothing added but a date) or nil (no body)
#   write_body(string)  sends the String in the framing; returns its number of bytes
#   write_file(io, offset, length)          for Integer and :close; returns sent bytes, fewer if the file ended early
#   finish_body         the last chunk; may be called again
#   write_interim(status, headers)          false if nothing was sent: HTTP/1.0, a sent head, or closed
#   []=(name, value)    a trailer (RFC 9110, section 6.5); env has the exchange as gyre.response_trailers
#
# --- the end ---
#   close, reset        end at once; close lets written bytes arrive, reset shows a truncation
#   leave_place         the rest of the response needs no place and has no time limit
#   open_ended          the same for a response without an end of its own. If the client has ended
#                       its side, Gyre::Stop ends the fiber after limits.write_timeout_s without
#                       output, as such a client is usually gone
#   hold_file           counts a file until the request's end; false beyond limits.files_limit
#
# --- queries --- head_sent? closed? (or hijacked) hijacked? expects_continue? head_only?
# body_bytes_sent

require "gyre/http/namespace"

Gyre::Loop.define_native(:http)

module Gyre
  module HTTP
    # The superclass is Object, as the C extension may define the class first.
    class Exchange
      NOTHING = Object.new.freeze

      def label = "an HTTP client"

      # Implements rack.hijack, and rack.early_hints if headers are given. Two separate objects for
      # each request would cost more than the rest of the env.
      def call(headers = NOTHING) = NOTHING.equal?(headers) ? hijack : write_interim(103, headers&.transform_values { |value| lines(value) })

      # Rack 2's apps, and Rails 7.0, join several values by line ends.
      def lines(value) = value.is_a?(String) ? value.split("\n") : value
      private :lines

      # For env["gyre.client_gone"]. True if the client has reset the connection or stream, or if
      # the connection has ended. False after the request's end, and for a half-closed client, which
      # may wait for the response.
      def gone? = client_gone&.value == true

      # Waits until the client has gone (true) or the request has ended (false). Raises
      # TimeoutError.
      def wait(timeout: nil) = client_gone&.wait(timeout: timeout) || false
    end
  end
end
