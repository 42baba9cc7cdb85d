# frozen_string_literal: true

# What a server's side of an HTTP/1 connection can do: the primitives that both engines offer, and the callables that a
# Rack env gets from it. Gyre::HTTP1::Service runs an app on it and Gyre::HTTP1::Response writes the slower kinds of answer,
# both on these primitives only. Subclasses: NativeConnection (C, no instance variables) and PortableConnection.
# This file never reads or writes a socket, and no method of this class may use an instance variable.
#
# One connection, as its engine (the acceptor) sees it; a fiber is held only in SERVING and, portable, LINGERING:
#
#   accepted ─► FIRST BYTE ─► HEAD ─► SERVING ─► IDLE ─► HEAD …      IDLE, FIRST BYTE: no fiber, no buffer
#                  │408        │408/4xx  │  ▲      │ keep-alive time over, drain: closed without a word
#                  ▼           ▼         │  └ pipelined request, complete
#               LINGERING ◄────┴─────────┘ ─► HIJACKED (no longer the engine's)
#                  └► closed
#
# The engine collects a head without a fiber. When the head is complete, or is refused, or is too late, it runs
# handler.call(connection) in a pooled fiber; that calls next_request until it returns nil.
#
# The primitives (a subclass defines them all; "parks" means: through the scheduler, other fibers run meanwhile):
#
# next_request → Hash or nil
#     First ends the request before: its unread body is read off when at most limits.unread_body_bytes_limit of it is left
#     (parks; counted as it comes for chunked bodies), or else the connection closes, lingering. Then: the env of the next complete head
#     that is there already (the one the engine collected, or a pipelined one); nil when there is none: the connection is
#     then either back in the engine's care (IDLE, or HEAD with its partial head kept), or closed, or hijacked. The caller
#     does not need to know which, and must not touch the connection afterwards. A refused head is answered here
#     (write, shut down writing, linger) and gives nil; so does a content-length beyond limits.body_bytes_limit (413).
#     On a closed or hijacked connection: nil.
# write_response(status, headers, body) → true or false
#     The fast path: head and whole body in one writev. True: it is in the kernel (parks until all is). False: nothing was
#     sent because this answer needs Response. It may say false to anything that it does not want to know, and must unless
#     - status is an Integer from 200 to 599, and headers a Hash, and body an Array of Strings,
#     - each key is a String, and each value a String or an Array of Strings,
#     - there is none of rack.hijack, rack.protocol, transfer-encoding (and: any other key that starts with "rack." is not sent),
#     - content-length, if given, is the body's length (HEAD, 204, 304: any digits).
#     Raises ArgumentError, with nothing sent, for a name that is no token or a value with CR, LF or NUL. After hijack: true, with nothing sent.
#     HEAD, 204 and 304: no body goes out. content-length is the body's length, but 204: none; HEAD and 304: the given one; else
#     HEAD: the body's length if that is not 0; 304: none.
# write_head(status, headers, framing) → the framing really used
#     Sends the head at once (a client may wait for it before it does what the body waits for). framing is
#       Integer   content-length; the caller sends exactly so many bytes
#       :chunked  transfer-encoding: chunked; HTTP/1.0 turns it into :close
#       :close    the body ends with the connection; connection: close
#       :raw      no field of the engine's own except date; the app's connection, transfer-encoding and content-length go out as
#                 they are; the connection is over afterwards (upgrades, partial hijack)
#       nil       no body, and nothing said about one
#     HEAD, 204 and 304 turn the first three into nil (HEAD and 304: an Integer is written as content-length all the same; HEAD:
#     so is :chunked as transfer-encoding; 204 says neither). With any framing but :raw the headers' own content-length, transfer-encoding
#     and connection are left out; connection containing "close" ends keep-alive. Keys that start with "rack." are left out.
#     Header values may be Strings or Arrays of Strings. Raises ArgumentError as above, with nothing sent.
# write_body(string) → Integer, the string's bytes; framed as write_head returned. An empty string sends nothing. nil framing, or after
#     finish_body: nothing is sent.
# finish_body → nil; the last chunk for :chunked.
# write_file(io, offset, length) → Integer, bytes sent; fewer than length when the file ended early. Framing Integer, or :close.
# write_interim(status, headers) → true, or false when nothing was sent: HTTP/1.0, or the head has been sent.
#     100 satisfies a waiting Expect. Raises ArgumentError as above.
# read_body(max_bytes) → String (BINARY, 1 to max_bytes bytes, a new one each time) or nil at the end. Parks; what is there is
#     returned at once. The first call sends 100 Continue if expects_continue?. Raises
#     RequestError (408 between bytes, 413, 400 or 431 for chunks and trailers), RequestCut when the client left before the end; either
#     ends keep-alive, and later calls raise the same again.
# trailers → Hash (lower-case name → value, joined as headers are); empty until the body was read to its end.
# hijack → IO. The socket leaves the engine: it is not watched, closed, timed or counted as a connection any more; its handler's fiber still
#     counts as running. The plain Socket (non-blocking) when no byte is buffered, else HijackedSocket.new(socket, bytes).
#     May be called before any head, or after write_head(…, :raw or :close).
# close → nil; at once, FIN after what was written; may be called again. reset → nil; the same with RST (SO_LINGER 0).
# interrupt is the acceptor's (see server.rb).
# Questions: head_sent? (of the present request: some byte of its final head was given to the kernel), keep_alive?,
#     closed? (also true after hijack), hijacked?, expects_continue? (a 100 is awaited: Expect was sent, not one byte of the body has
#     come with the head, and neither 100 nor head was sent), head_only? (the request
#     was HEAD), body_bytes_sent (of the present answer, without head and chunk framing), remote_address → String
#     ("" for a Unix socket).
#
# Errors on writing: Errno::EPIPE, Errno::ECONNRESET and the like, or WriteTimeout after limits.write_timeout_s without a byte taken. The
# primitive has then closed the connection itself, so closed? tells such an error from the app's own. On a closed
# connection the write primitives raise Errno::EPIPE, read_body raises RequestCut and next_request returns nil.
# A parked primitive can be interrupted by any exception and leaves the connection closable.
#
# keep_alive? is decided before the head goes out: false after "connection: close" of either side, HTTP/1.0 without keep-alive, an unanswered
# Expect, keep_alive_requests_limit, a draining acceptor, a framing that needs it, an unread body that is known to be longer than
# limits.unread_body_bytes_limit (write_response only). The head then says "connection: close"; for HTTP/1.0 that stays it says
# "connection: keep-alive". A 1.1 head says nothing.
#
# env: the acceptor's template (Gyre::HTTP1::Env.template) plus REQUEST_METHOD PATH_INFO QUERY_STRING REQUEST_URI SERVER_NAME
# SERVER_PORT SERVER_PROTOCOL REMOTE_ADDR HTTP_* CONTENT_TYPE CONTENT_LENGTH, and
#   gyre.connection, rack.hijack, rack.early_hints   the connection itself (see #call), so a request allocates none of them
#   rack.response_finished                           a new Array
#   rack.input            Input::EMPTY without a body, else Input.new(connection)
#   rack.protocol         only when the parser says UPGRADE: the names of Upgrade as an Array of Strings
#   gyre.trailers         only for a chunked body: connection.method(:trailers)
# All values are new unfrozen BINARY Strings; those that stand in the template are shared and frozen, and REQUEST_METHOD and SERVER_PROTOCOL may be. Fields with "_" in the name are
# left out (CVE-2024-45614). Repeated fields are joined by ", ", Cookie by "; ". HTTP_HOST is the authority of an absolute-form target.
# SERVER_NAME and SERVER_PORT come from the authority (port: 80, or 443 for https); without one from the socket's own address (IPv6 in
# brackets; "localhost" and "80" for a Unix socket).

module Gyre
  module HTTP1
    # See the head of this file. The superclass is Object, so that the C extension may define it first.
    class Connection
      NOTHING = Object.new.freeze
      private_constant :NOTHING

      # What a Rack env holds as rack.hijack and rack.early_hints: the connection itself answers both, told apart by the
      # argument. Two objects for each request would cost more than the rest of an env that is dupped from its template.
      #
      # @param headers [Hash] early hints; without an argument: a full hijack
      # @return [IO, Boolean] the socket; or whether the hints were sent
      # @raise [ArgumentError] for header names or values that cannot be sent
      def call(headers = NOTHING)
        NOTHING.equal?(headers) ? hijack : write_interim(103, headers)
      end
    end
  end
end
