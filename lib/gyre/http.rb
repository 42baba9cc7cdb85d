# frozen_string_literal: true

# Loads the server of HTTP/1.0, HTTP/1.1 and HTTP/2. Sockets, parsers and responses are C. Tests and
# fuzzers compare the parser with a Ruby parser (test/oracle/http).

require "gyre/core"
require "gyre/http/server"

module Gyre
  # Implements RFC 9110 and 9112 for Rack apps; see "A byte's way" in ARCHITECTURE.md.
  module HTTP
  end
end
