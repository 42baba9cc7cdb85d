# frozen_string_literal: true

# One request and its response, on the server's side: its primitives, and what a Rack env gets from
# it. Service runs an app on them, Response writes the slower kinds of response with them.
# H1::Exchange (C) defines them all; here is what each has to do. Nothing in this file touches a
# socket, and no method may use an instance variable: an exchange is a C structure.
#
# An HTTP/1 connection makes one exchange at a time. Only SERVING has one, and a fiber; IDLE and
# FIRST BYTE hold no buffer either:
#
#   accepted ─► (PROXY, behind one that writes its header) ─► (HANDSHAKE, with TLS) ─►
#               FIRST BYTE ─► HEAD ─► (BODY, WAITING: requests_limit) ─► SERVING ─► IDLE ─► HEAD …
#                  │408        │408/4xx  │  ▲       └ time over, drain, end of the client: closed without a response
#                  ▼           ▼         │  └ a pipelined request that is complete
#               LINGERING ◄────┴─────────┴─► HIJACKED (no longer the server's)
#                  └► closed
#
# The connection collects a head without a fiber. When it is complete, or refused, or too late, it
# runs handler.call(exchange) in a pooled fiber; that calls next_request until it returns nil.
# "Parks" below means: waits through the scheduler, so that other fibers run. A parked primitive can
# be interrupted by any exception; the connection can be closed then.
#
# An exchange ends with the next request, and when the handler has returned: from then on its
# methods raise IOError or Errno::EPIPE, and its questions return what they return for a closed
# connection. Any thread may call it (see Handovers).

module Gyre
  module HTTP
    # @abstract See the head of this file. The superclass is Object, so that the C extension may
    #   define it first.
    class Exchange
      NOTHING = Object.new.freeze
      private_constant :NOTHING

      # @return [String] what its handler waits for, in print_hierarchy
      def label
        "an HTTP client"
      end

      # What a Rack env holds as rack.hijack and rack.early_hints: the exchange itself is called for
      # both, told apart by the argument. Two objects for each request would cost more than the rest
      # of an env that is dupped from its template.
      #
      # @param headers [Hash] early hints; without an argument: a full hijack
      # @return [IO, Boolean] the socket; or whether the hints were sent
      # @raise [ArgumentError] for header names or values that cannot be sent
      def call(headers = NOTHING)
        NOTHING.equal?(headers) ? hijack : write_interim(103, headers)
      end

      # @!group The client's departure: env["gyre.client_gone"]

      # The client has left: it has reset the connection, or the connection is over. One that has
      # only ended its side may still wait for the response, and has not left, unless the server's
      # setting cancel_when_client_gone is "closed". Cheap until it is called for the first time.
      #
      # @return [Boolean] false also after the request's end
      def gone?
        promise = client_gone
        promise&.value == true
      end

      # Waits until the client has left, or the request has ended. Any task and thread may wait.
      #
      # @param timeout [Numeric, nil] seconds
      # @return [Boolean] whether the client has left
      # @raise [TimeoutError]
      def wait(timeout: nil)
        client_gone&.wait(timeout: timeout) || false
      end

      # What {#gone?} and {#wait} ask.
      #
      # @return [Promise, nil] of true: the client has left; of false: the request has ended before;
      #   nil: it has ended already
      def client_gone
        raise NotImplementedError
      end

      # @!endgroup
      # @!group Requests

      # Ends the request before and begins the next one that is there already: the head that the
      # acceptor collected, or a pipelined one. Nil when there is none: the connection is then
      # without an exchange (IDLE, or HEAD with its partial head kept), or closed, or hijacked; the
      # caller need not distinguish them, and must not touch it any more.
      #
      # Of the body of the request before, up to limits.unread_body_bytes_limit are read off
      # (parks); if more is left, or an Expect was not met, the connection lingers and closes. A
      # head that is refused gets its response here (written, writing shut down, lingering) and
      # gives nil; so does a content-length beyond limits.body_bytes_limit (413).
      #
      # The env is the acceptor's template (Env.template) and
      # - PATH_INFO REQUEST_URI HTTP_* CONTENT_TYPE CONTENT_LENGTH, and QUERY_STRING unless it is
      #   empty: new, unfrozen, BINARY
      # - REQUEST_METHOD SERVER_NAME SERVER_PORT SERVER_PROTOCOL REMOTE_ADDR, and the empty
      #   SCRIPT_NAME and QUERY_STRING: BINARY and frozen, since requests share them
      # - rack.hijack, gyre.client_gone, and rack.early_hints where the template has it: the
      #   exchange itself, so a request allocates none of them
      # - rack.response_finished: a new Array
      # - rack.input: Input::EMPTY without a body, else Input.new(exchange)
      # - rack.protocol: only when the parser reports UPGRADE: the names of Upgrade as an Array of
      #   Strings
      # - gyre.trailers: only for a chunked body: exchange.method(:trailers)
      #
      # Fields with "_" in the name are left out (CVE-2024-45614). Repeated ones are joined by ", ",
      # Cookie by "; ". HTTP_HOST is the authority of an absolute-form target. SERVER_NAME and
      # SERVER_PORT come from the authority (its port or else 80, 443 for https); without one from
      # the socket's own address (IPv6 in brackets; "localhost" and "80" for a Unix socket).
      #
      # For a second request the env has its exchange as rack.hijack, and the receiver has ended.
      #
      # @return [Hash, nil]
      def next_request
        raise NotImplementedError
      end

      # Reads of the request's body; what is there is returned at once, otherwise it parks. The
      # first call sends 100 Continue if {#expects_continue?}.
      #
      # @param max_bytes [Integer]
      # @return [String, nil] BINARY, 1 to max_bytes bytes, a new one each time; nil at the end
      # @raise [RequestError] 408 between bytes, 413, 400 or 431 for chunks and trailers; ends
      #   keep-alive; again and again
      # @raise [RequestCut] the client left before the end, or the connection is closed; the same
      # @raise [IOError] the request is over
      def read_body(_max_bytes)
        raise NotImplementedError
      end

      # For Handovers, from any thread that has the interpreter: if that fiber waits in read_body,
      # the exception is raised there, and another one may read at once.
      #
      # @param fiber [Fiber]
      # @param exception [Exception]
      # @return [nil]
      def interrupt_reader(_fiber, _exception)
        raise NotImplementedError
      end

      # @return [Hash{String => String}] lower-case names, values joined as in the env; empty until
      #   the body was read to its end
      def trailers
        raise NotImplementedError
      end

      # The socket leaves the server: it is not watched, timed, closed or counted as a connection
      # any more. The handler's fiber still counts as running. May be called before any head, or
      # after write_head(…, :raw or :close).
      #
      # @return [Socket, HijackedSocket] non-blocking; the latter when some bytes were received
      #   already
      # @raise [IOError] it is closed, or hijacked before
      def hijack
        raise NotImplementedError
      end

      # @!endgroup
      # @!group Responses
      #
      # Errors of the network while writing (Errno::EPIPE, Errno::ECONNRESET and the like), and
      # WriteTimeout after limits.write_timeout_s without a byte taken, have closed the connection
      # before they are raised, so {#closed?} distinguishes them from the app's own. On a closed
      # connection the write primitives raise Errno::EPIPE.
      #
      # Header values are Strings or Arrays of Strings (a line each). A name that is no token, or a
      # value with CR, LF or NUL, raises ArgumentError, and nothing was sent. Keys that start with
      # "rack." are not sent, and content-length, transfer-encoding and connection of the app's own
      # only with the framing :raw. A date is added if there is none.
      #
      # Whether the connection is kept is decided before the head goes out. It is not after
      # "connection: close" of either side, HTTP/1.0 without keep-alive, an Expect that was not met,
      # limits.keep_alive_requests_limit, a draining acceptor, a framing that ends with the
      # connection; and, in write_response, when more than limits.unread_body_bytes_limit of the
      # request's body are known to be left. The head then has "connection: close". HTTP/1.0 that is
      # kept has "connection: keep-alive", 1.1 nothing.

      # The fast path: head and whole body in one writev, with content-length. It may decline
      # anything, and must unless
      # - status is an Integer from 200 to 599, headers a Hash with String keys, body an Array of
      #   Strings,
      # - there is none of rack.hijack, rack.protocol, transfer-encoding, and it is no 2xx to
      #   CONNECT,
      # - content-length, if given, is the body's length (any digits for HEAD, 204, 304).
      #
      # HEAD, 204 and 304 send no body. content-length: none for 204; for 304 and HEAD the given
      # one, else none for 304, and for HEAD the body's length unless that is 0 (a middleware took
      # it away).
      #
      # @param status [Object]
      # @param headers [Object]
      # @param body [Object]
      # @return [Boolean] true: all of it is in the kernel (parks until then), or the connection was
      #   hijacked. False: nothing was sent, Response has to do it
      # @raise [ArgumentError, SystemCallError, WriteTimeout]
      def write_response(_status, _headers, _body)
        raise NotImplementedError
      end

      # Sends a head at once: a client may wait for it before it does what the body waits for.
      # Framings:
      # - Integer: content-length; the caller sends exactly so many bytes
      # - :chunked: transfer-encoding: chunked; HTTP/1.0 turns it into :close
      # - :close: the body ends with the connection
      # - :raw: nothing of the server's own except date; the connection is over afterwards
      #   (upgrades, partial hijack)
      # - nil: no body, and no header about one
      #
      # HEAD, 204 and 304 turn all but :raw into nil. An Integer is written as content-length all
      # the same (but for 204), :chunked as transfer-encoding for HEAD.
      #
      # @param status [Integer] 101, or 200 to 999
      # @param headers [Hash]
      # @param framing [Integer, Symbol, nil]
      # @return [Integer, Symbol, nil] the framing really used
      # @raise [ArgumentError, SystemCallError, WriteTimeout]
      def write_head(_status, _headers, _framing)
        raise NotImplementedError
      end

      # Sends of the body, framed as {#write_head} returned; nothing for an empty String, for nil
      # framing, after {#finish_body}.
      #
      # @param string [String]
      # @return [Integer] its bytes
      # @raise [SystemCallError, WriteTimeout]
      def write_body(_string)
        raise NotImplementedError
      end

      # Sends a part of a file; for Integer framing or :close.
      #
      # @param io [#to_io] a File or an OpenFile
      # @param offset [Integer]
      # @param length [Integer] bytes
      # @return [Integer] bytes sent; fewer when the file ended early
      # @raise [SystemCallError, WriteTimeout]
      def write_file(_io, _offset, _length)
        raise NotImplementedError
      end

      # Ends the body: the last chunk for :chunked. May be called again.
      #
      # @return [nil]
      # @raise [SystemCallError, WriteTimeout]
      def finish_body
        raise NotImplementedError
      end

      # Sends an interim response; 100 satisfies a waiting Expect.
      #
      # @param status [Integer] 100 to 199, but not 101
      # @param headers [Hash]
      # @return [Boolean] false when nothing was sent: HTTP/1.0, the head has been sent, or the
      #   connection is closed
      # @raise [ArgumentError, SystemCallError, WriteTimeout]
      def write_interim(_status, _headers)
        raise NotImplementedError
      end

      # Sets a trailer, which is sent behind the body of a response in chunks or by HTTP/2 (RFC
      # 9110, section 6.5). In env the exchange is gyre.response_trailers for it:
      # `env["gyre.response_trailers"]["x-checksum"] = "…"`, until the body has ended.
      #
      # @param name [String]
      # @param value [String, Array<String>]
      # @return [Object] the value
      # @raise [IOError] the request is over
      # @raise [ArgumentError] when it is sent: the name or value cannot be sent, or not in trailers
      def []=(_name, _value)
        raise NotImplementedError
      end

      # @!endgroup
      # @!group The end

      # Closes at once; what was written still arrives. May be called again, also while another
      # fiber is parked on it.
      #
      # @return [nil]
      def close
        raise NotImplementedError
      end

      # The same with a reset (SO_LINGER 0), so that the client notices that something is missing.
      #
      # @return [nil]
      def reset
        raise NotImplementedError
      end

      # The rest of this request and response counts no longer as a running request
      # (limits.requests_limit), and has no limit of time of its own: it has no end that could be
      # waited for. Done at a hijack, and by {#next_request}.
      #
      # @return [nil]
      def leave_place
        raise NotImplementedError
      end

      # Counts a file for this request, until its end.
      #
      # @return [Boolean] false: limits.files_limit of them are being sent already
      def hold_file
        raise NotImplementedError
      end

      # @!endgroup
      # @!group Questions

      # @return [Boolean] some of the present request's final head was given to the kernel
      def head_sent?
        raise NotImplementedError
      end

      # @return [Boolean] as far as it is known now
      def keep_alive?
        raise NotImplementedError
      end

      # @return [Boolean] closed or hijacked
      def closed?
        raise NotImplementedError
      end

      # @return [Boolean]
      def hijacked?
        raise NotImplementedError
      end

      # @return [Boolean] the client waits for a 100: it sent Expect, no byte of the body came with
      #   the head, and neither 100 nor the head was sent
      def expects_continue?
        raise NotImplementedError
      end

      # @return [Boolean] the request is HEAD
      def head_only?
        raise NotImplementedError
      end

      # @return [Integer] of the present response, without head and chunk framing; also when it is
      #   closed
      def body_bytes_sent
        raise NotImplementedError
      end

      # @return [String] the client's IP address; "" for a Unix socket
      def remote_address
        raise NotImplementedError
      end
    end
  end
end
