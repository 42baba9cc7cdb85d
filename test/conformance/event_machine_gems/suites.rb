# frozen_string_literal: true

# The gems' suites that rakelib/conformance_event_machine_gems.rake runs. `failing`: beginnings of
# the ids of examples that fail with EventMachine 1.2.7 itself on Ruby 4.0, too, and why.
module GyreConformance
  EVENT_MACHINE_SUITES = {
    "em-http-request" => {
      specs: %w[spec],
      # The first two and the proxies' expect an older http_parser.rb or Mongrel.
      failing: ["spec/client_spec.rb[1:51]", "spec/client_spec.rb[1:54]", "spec/http_proxy_spec.rb[1:1:1:", "spec/http_proxy_spec.rb[1:1:2:"]
    },
    "em-websocket" => {
      specs: %w[spec],
      # They need a fork of em-websocket-client that is in no gem; the first one sleeps too little.
      failing: ["spec/integration/draft75_spec.rb", "spec/integration/common_spec.rb[1:2]"]
    },
    "em-hiredis" => {
      specs: %w[spec],
      failing: ["spec/lock_spec.rb"] # scripts fail under Ruby 3 and newer: Kernel#eval takes their call
    },
    "em-synchrony" => {
      # Those of clients of other servers are left out.
      specs: %w[defer fiber_iterator http inlinesync iterator kernel_override keyboard memcache multi synchrony system tcpsocket thread timer]
             .map { |name| "spec/#{name}_spec.rb" },
      # Durations, to 15 %; on a busy machine.
      failing: ["spec/tcpsocket_spec.rb[1:8:1]", "spec/keyboard_spec.rb[1:1]", "spec/http_spec.rb[1:2]", "spec/http_spec.rb[1:3]",
                "spec/iterator_spec.rb[1:4]"]
    },
    "faye-websocket" => {
      specs: %w[spec], repository: "https://github.com/faye/faye-websocket-ruby", failing: []
    },
    "thin" => {
      specs: %w[spec/backends spec/server spec/request spec/connection_spec.rb spec/response_spec.rb spec/headers_spec.rb spec/runner_spec.rb
                spec/server_spec.rb spec/logging_spec.rb spec/controllers spec/command_spec.rb spec/rack spec/daemonizing_spec.rb],
      repository: "https://github.com/macournoyer/thin", tag: "v2.0.1",
      # For users other than root; a change of the user. The last one looks for a process just after
      # it was killed, which a busy machine has not ended yet.
      failing: ["spec/server_spec.rb[1:2]", "spec/daemonizing_spec.rb[1:4]", "spec/daemonizing_spec.rb[1:7]"]
    }
  }.freeze
end
