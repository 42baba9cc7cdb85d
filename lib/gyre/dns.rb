# frozen_string_literal: true

# Loads Gyre::DNS: messages, server and resolver.
require "gyre/net"
require "gyre/dns/message"
