# frozen_string_literal: true

# Loaded by `require "rubydns"` after gyre/dns/rubydns; the latter has everything.
