# frozen_string_literal: true

# Settings of a DNS server: keywords of Gyre::DNS.run, flags of `gyre dns`.
require "gyre/settings"

module Gyre
  module DNS
    SETTINGS = Settings.new({
      "Limits" => [
        Settings.row(:waiting_limit, :count, "rules that run or wait at once for each UDP address; further questions are dropped",
          default: 10_000),
        Settings.row(:connections_limit, :count, "open connections of TCP and TLS", default: 1000),
        Settings.row(:idle_timeout_s, :seconds, "wait for a client's next bytes over TCP", default: 10),
        Settings.row(:rate_limit, :count, "responses a second to one network over UDP without a cookie; of those beyond, " \
                                          "every other one is truncated, the rest dropped"),
        Settings.row(:cache_bytes, :bytes, "memory of the answers of upstream name servers; 0 keeps none", default: 16 << 20, range: 0..),
        Settings.row(:stale_s, :seconds, "how long such an answer, after its end, may be used while the name servers fail",
          default: 0, range: 0..)
      ]
    })
  end
end
