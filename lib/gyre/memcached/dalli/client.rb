# frozen_string_literal: true

# Dalli::Client: Gyre's client with Dalli's defaults and options.

require "gyre/memcached"

module Dalli
  class Client < Gyre::Memcached::Client
    BINARY = "Dalli 5.0 only supports the meta protocol. The :protocol option has been removed."

    # Ignores unknown options, like Dalli. The default serializer is Marshal, also for Strings.
    # Reports failed servers to Dalli.logger.
    def initialize(servers = nil, options = nil)
      options ||= {}
      Dalli.logger.warn(BINARY) if options[:protocol].to_s == "binary"
      known = options.slice(*Gyre::Memcached::Options::NAMES)
      known[:serializer] ||= Marshal
      super(servers, string_fastpath: false, control_characters: true, **known, too_large_error: ValueOverMaxSize, logger: Dalli.method(:logger))
    end

    def quiet
      before = Thread.current[QUIET]
      Thread.current[QUIET] = true
      super
    ensure
      Thread.current[QUIET] = before
    end
    alias_method :multi, :quiet

    # Does nothing, because this client reads all replies.
    def drain_deferred_responses = nil

    private

    # If the list of servers is empty, the constructor does not raise; calls raise RingError.
    def addresses(servers) = Gyre::Memcached::Address.list(servers)
  end
end
