# frozen_string_literal: true

# Lets `require "async/dns"` succeed after gyre/dns/rubydns, which has everything.
