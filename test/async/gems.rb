# frozen_string_literal: true

# What runs on `require "gyre/async"` in test/async, in a bundle of its own: it would put newer
# copies of Ruby's own libraries (openssl, json) under all other tests. bin/setup installs it where
# Ruby is 3.3 or newer, which Async needs.
gem "async", "~> 2.46"
gem "falcon", "~> 0.57"
gem "puma", ">= 6.0" # as Falcon, a server for test/http/client
