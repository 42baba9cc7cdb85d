# frozen_string_literal: true

# Loads Gyre::Memcached, a client that pipelines commands.
require "gyre/sync/waiter"
require "gyre/memcached/client"
