# frozen_string_literal: true

# Lets `require "rubydns"` succeed after gyre/dns/rubydns, which has everything.
