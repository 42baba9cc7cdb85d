# frozen_string_literal: true

# Loads the log server, its outputs and its client, which need the C extension.

require "gyre"
require "gyre/log/ingest"
require "gyre/log/wire/records"
require "gyre/log/wire"

module Gyre
  # Carries log messages from programs to files; see docs/log.md.
  module Log
  end
end
