# frozen_string_literal: true

# An HTTP/1 server on the loop of this thread: listening sockets in, a Rack app behind. Gyre::Web::Server and tests start
# it; it picks the acceptor of the engine that the thread's scheduler belongs to. It binds nothing and handles no signal.
#
# An acceptor (Gyre::HTTP1::NativeAcceptor in C, Gyre::HTTP1::PortableAcceptor) is all of a server that knows sockets:
#
#   Acceptor.new(sockets, handler, limits, template)
#       sockets    Array of listening IOs (non-blocking); the acceptor never closes them
#       handler    responds to call(connection): run in a pooled fiber of Fiber.scheduler whenever a connection has a complete
#                  head, or one to refuse. It never raises, except SystemExit, SignalException and the like. It also
#                  responds to error(message): one line for the log
#       limits     Gyre::HTTP1::Limits, read once
#       template   frozen Hash of env entries that are the same for each request (Gyre::HTTP1::Env.template)
#   start            accepts from now on, on the loop of the calling thread (Fiber.scheduler)
#   stop             accepts no more; may be called again. Connections go on. The sockets may be closed afterwards
#   drain            stop, and: idle connections (also those that never sent a byte) close at once, heads that are under way
#                    may be completed, and from now on no answer keeps its connection
#   interrupt(exception) → Integer   scheduler.fiber_interrupt for each fiber that runs the handler now; how many they were
#   close            stop, and all connections close at once, whatever they do
#   stats → Hash     of Integers: connections: (open, without hijacked ones), idle: (of these, those without a request under way),
#                    running: (fibers in the handler now, hijacked ones too), accepted:, requests:, malformed: (refused heads), refused: (503, too many connections)
#   Beyond limits.connections_limit a new connection gets the 503 and is closed, without a handler.
#   EMFILE and the like on accept: pause for a second, say so once through handler.error, go on.

module Gyre
  module HTTP1
    # See the head of this file.
    class Server
    end
  end
end
