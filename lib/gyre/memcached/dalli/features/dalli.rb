# frozen_string_literal: true

# Lets `require "dalli"` succeed after gyre/memcached/dalli.

require "gyre/memcached/dalli"
