# frozen_string_literal: true

# Loads Gyre::DNS: messages, server, resolver. The scheduler and Gyre.connect use the resolver if
# its result would equal the system's (Gyre::DNS.host_names).
require "gyre/net"
require "gyre/dns/message"
require "gyre/dns/server"
require "gyre/dns/resolver"
require "gyre/dns/host_names"

Gyre::DNS.host_names = :exact
