# frozen_string_literal: true

# The gems on EventMachine whose own tests `rake conformance:event_machine_gems` runs, with Gyre's
# stub in the place of eventmachine.
gem "eventmachine", path: File.expand_path("../../lib/gyre/event_machine/features", __dir__)

gem "em-hiredis", "0.3.1"
gem "em-http-request", "1.1.7"
gem "em-synchrony", "1.0.6"
gem "em-websocket", "0.5.3"
gem "faye-websocket", "0.12.0"
gem "thin", "2.0.1"

# What their tests need.
gem "benchmark"
gem "em-spec"
gem "em-websocket-client"
gem "multi_json"
gem "ostruct"
gem "permessage_deflate"
gem "puma", "< 6"
gem "rack", "< 3"
gem "rspec", "~> 3.13"
gem "rspec-eventmachine"
