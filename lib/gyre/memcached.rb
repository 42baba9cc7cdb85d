# frozen_string_literal: true

# Loads Gyre::Memcached, a client that pipelines commands.
require "gyre/net"
require "gyre/sync/waiter"
require "gyre/memcached/errors"
require "gyre/memcached/client"
