# frozen_string_literal: true

# Found by `require "dalli"` after `require "gyre/memcached/dalli"`, and empty.

require "gyre/memcached/dalli"
