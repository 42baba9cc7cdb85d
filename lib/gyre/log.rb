# frozen_string_literal: true

# Loads the log's ingest and wire formats. The server is in gyre/log/server, the client in
# gyre/log/client.

require "gyre/core"
require "gyre/log/errors"
require "gyre/log/ingest"
require "gyre/log/wire/records"
require "gyre/log/wire"

module Gyre
  # Carries log messages from programs to files; see docs/log.md.
  module Log
  end
end
