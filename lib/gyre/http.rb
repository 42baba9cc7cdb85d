# frozen_string_literal: true

# HTTP/1.0 and 1.1, the server's side: `require "gyre/http"` for Gyre::HTTP::Server. Sockets, parser
# and responses are in the C extension; the parser in Ruby (test/oracle/http) is loaded by tests and
# fuzzers only, which compare the two.

require "gyre"
require "gyre/http/server"

module Gyre
  # RFC 9110 and RFC 9112 between sockets and Rack apps. ARCHITECTURE.md, "A byte's way", shows how
  # the parts meet.
  module HTTP
  end
end
