# frozen_string_literal: true

# Loaded by `require "async/dns"` after gyre/dns/rubydns; the latter has everything.
