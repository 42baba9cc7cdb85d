# frozen_string_literal: true

# Loads the log server, its outputs and its client, which need the C extension. The command `gyre
# log` is in lib/gyre/cli/log.rb.

require "gyre"
require "gyre/log/ingest"
require "gyre/log/wire/records"
require "gyre/log/wire"

module Gyre
  # Carries log messages from programs to files. See docs/log.md for its use and ARCHITECTURE.md for
  # its parts.
  module Log
  end
end
