# frozen_string_literal: true

# What `require "dalli"` finds after `require "gyre/memcached/dalli"`: nothing more is to be done.

require "gyre/memcached/dalli"
