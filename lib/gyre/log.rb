# frozen_string_literal: true

# The log aggregator: `require "gyre/log"` for its server, its outputs and its client. The command
# `gyre log` is layer 5, lib/gyre/cli/log.rb. Server and client need the C extension.

require "gyre"
require "gyre/log/ingest"
require "gyre/log/wire/records"
require "gyre/log/wire"

module Gyre
  # Log messages between programs and files. ARCHITECTURE.md shows how the parts meet, docs/log.md
  # how it is used.
  module Log
  end
end
