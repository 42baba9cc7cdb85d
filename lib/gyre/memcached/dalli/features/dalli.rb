# frozen_string_literal: true

# Found by `require "dalli"` after `require "gyre/memcached/dalli"`; nothing is left to do.

require "gyre/memcached/dalli"
