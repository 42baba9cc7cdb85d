# frozen_string_literal: true

# Gyre::Memcached: a client that pipelines by itself. `require "gyre/memcached"`.
require "gyre/net"
require "gyre/sync/waiter"
require "gyre/memcached/errors"
require "gyre/memcached/client"
