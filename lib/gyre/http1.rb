# frozen_string_literal: true

# HTTP/1.0 and 1.1, the server's side: `require "gyre/http1"` for Gyre::HTTP1::Server. Sockets, parser and answers are in the C
# extension; the parser in Ruby (gyre/http1/parser and its parts) is loaded by tests and fuzzers only, which compare the two.

require "gyre"
require "gyre/http1/connection"
require "gyre/http1/errors"
require "gyre/http1/hijacked_socket"
require "gyre/http1/limits"
require "gyre/http1/server"

module Gyre
  # RFC 9110 and RFC 9112 between sockets and Rack apps. ARCHITECTURE.md, "A byte's way", shows how the parts meet.
  module HTTP1
  end
end
