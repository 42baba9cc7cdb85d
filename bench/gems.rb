# frozen_string_literal: true

# What Gyre is measured against, each in the newest version that runs on this Ruby.
# bench/support/setup.rb copies this file below tmp/bench and installs there; nothing of it is
# needed to use, build or test Gyre.

gem "falcon"
gem "iodine"
gem "puma"
gem "rack"
gem "rackup"

gem "railties"
gem "thruster"

gem "actioncable"
gem "anycable-rack-server", ">= 0.5"
gem "async"
gem "async-websocket"
gem "carbon_fiber" if RUBY_VERSION >= "3.4"

gem "ever"
gem "nio4r"

gem "analogger"
gem "eventmachine"
gem "benchmark" # Analogger requires it, and Ruby 4.0 brings it as a gem

gem "dalli"

gem "async-dns"
gem "rubydns"

gem "async-http"
gem "http"
gem "httpx"
gem "typhoeus"
