# frozen_string_literal: true

# One request and its response in the server. H1::Exchange and H2::Exchange (C) define the
# primitives below; Service runs an app with them, and Response writes unusual responses. Touches no
# socket. Methods use no instance variables, as an exchange is a C structure.
#
# An HTTP/1 connection makes one exchange at a time, HTTP/2 one for each stream. Only SERVING has a
# fiber; IDLE and FIRST BYTE hold no buffer:
#
#   accepted ─► (PROXY header) ─► (HANDSHAKE, with TLS) ─► FIRST BYTE ─► HEAD ─► (BODY up to
#               limits.body_ahead_bytes_limit, then a place) ─► SERVING ─► IDLE ─► HEAD …
#                  │408        │408/4xx  │  ▲       └ time over, drain, end of the client: closed without a response
#                  ▼           ▼         │  └ a pipelined request that is complete
#               LINGERING ◄────┴─────────┴─► HIJACKED (no longer the server's)
#                  └► closed
#
# The connection runs handler.call(exchange) in a pooled fiber for each complete, refused or late
# head; the handler calls next_request until it returns nil. "Parks": waits through the scheduler.
# Any exception can interrupt a parked primitive; the connection can be closed afterwards. An
# exchange ends with the next request or the handler's return; afterwards its methods raise IOError
# or Errno::EPIPE. Any thread may call its methods (see ThreadCalls).
#
# Requests:
#   next_request        ends the request before and begins the next one that is there, or returns nil: the connection is idle,
#                       closed or hijacked, and the caller must not touch it any more. Before that reads the rest of
#                       the former body, up to limits.unread_body_bytes_limit; if there is more, the connection closes.
#                       Responds to a refused head by itself. Returns the env: Env.template and what C sets (h1/env.c). With a
#                       second request, env["rack.hijack"] is its exchange and the receiver has ended.
#   read_body(max)      a new BINARY String of 1 to max bytes, nil at the end; parks until there is some. The first call sends a
#                       100 that the client waits for. Raises RequestError (400, 408, 413, 431) or RequestCut, again and again
#   interrupt_reader(fiber, exception)   for ThreadCalls: raises in that fiber if it waits in read_body
#   trailers            Hash with lower-case names; empty until the body was read to its end
#   hijack              the socket, which leaves the server; a HijackedSocket if bytes were received already. Before any head, or
#                       after write_head(…, :raw or :close). Raises IOError if it is closed or hijacked
#   client_gone         Promise of true: the client left first, or of false: the request ended first; nil after its end
#
# Responses: network errors, and WriteTimeout after limits.write_timeout_s without progress, are
# raised after the connection is closed. Header values are Strings or Arrays of Strings; an invalid
# value raises ArgumentError before any byte is sent. Keys beginning with "rack." are not sent; the
# app's content-length, transfer-encoding and connection are sent only with the framing :raw. A
# missing date is added. The last head of a connection has "connection: close".
#   write_response(status, headers, body)   head and whole Array of Strings at once. True: the kernel has all of it, or the
#                       connection was hijacked. False: nothing was sent, Response does it (anything unusual)
#   write_head(status, headers, framing)    sends a head; returns the framing used: Integer (content-length), :chunked, :close
#                       (ends with the connection), :raw (nothing of the server's own but a date) or nil (no body)
#   write_body(string)  framed; returns its bytes
#   write_file(io, offset, length)          for Integer and :close; returns bytes sent, fewer if the file ended early
#   finish_body         the last chunk; may be called again
#   write_interim(status, headers)          false if nothing was sent: HTTP/1.0, head already sent, or closed
#   []=(name, value)    a trailer (RFC 9110, section 6.5); env has the exchange as gyre.response_trailers
#
# The end:
#   close, reset        at once; close lets arrive what was written, reset shows that something is missing
#   leave_place         the rest has no end that could be waited for: it needs no place and has no limit of time
#   hold_file           counts a file until the request's end; false beyond limits.files_limit
#
# Queries: head_sent? keep_alive? closed? (or hijacked) hijacked? expects_continue? head_only?
# body_bytes_sent remote_address

module Gyre
  module HTTP
    # The superclass is Object, so that the C extension may define the class first.
    class Exchange
      NOTHING = Object.new.freeze
      private_constant :NOTHING

      def label = "an HTTP client"

      # Serves as rack.hijack without an argument, and as rack.early_hints with headers: two more
      # objects a request would cost more than the rest of its env.
      def call(headers = NOTHING)
        NOTHING.equal?(headers) ? hijack : write_interim(103, headers)
      end

      # For env["gyre.client_gone"]: true if the client has reset the connection (HTTP/2: the
      # stream), or the connection has ended. A half-closed client may still wait for the response.
      # False after the request's end.
      def gone? = client_gone&.value == true

      # Waits, in any task or thread, until the client has gone or the request has ended. Returns
      # whether the client has gone; raises TimeoutError.
      def wait(timeout: nil) = client_gone&.wait(timeout: timeout) || false
    end
  end
end
