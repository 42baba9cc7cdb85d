# frozen_string_literal: true

# The programs and gems on EventMachine that `rake test:event_machine_programs` starts by `gyre em`,
# with Gyre's stub in the place of eventmachine.
gem "eventmachine", path: File.expand_path("../../lib/gyre/event_machine/features", __dir__)

gem "em-http-request", "1.1.7"
gem "em-websocket", "0.5.3"
gem "faye", "~> 1.4"
gem "jekyll", "~> 4.3"
gem "mailcatcher", "~> 0.10"
gem "nats", "~> 0.11"
gem "rackup"
gem "thin"
gem "webrick"
