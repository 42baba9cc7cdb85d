# frozen_string_literal: true

# Dalli::Client: Gyre's client with the defaults and the options of Dalli's. Loaded by
# gyre/memcached/dalli. It has nothing of the connections.

require "gyre/memcached"

# See lib/gyre/memcached/dalli.rb.
module Dalli
  # @see Gyre::Memcached::Client
  class Client < Gyre::Memcached::Client
    BINARY = "Dalli 5.0 only supports the meta protocol. The :protocol option has been removed."
    private_constant :BINARY

    # @param servers [String, Array<String>, nil] see {Gyre::Memcached::Address.list}
    # @param options [Hash{Symbol => Object}, nil] see {Gyre::Memcached::Options}; what is not there
    #   is ignored, as Dalli does. Unlike Gyre's own client it serializes by Marshal, Strings too,
    #   and Dalli.logger is told when a server is down
    def initialize(servers = nil, options = nil)
      options ||= {}
      Dalli.logger.warn(BINARY) if options[:protocol].to_s == "binary"
      known = options.slice(*Gyre::Memcached::Options::NAMES)
      known[:serializer] ||= Marshal
      super(servers, string_fastpath: false, control_characters: true, **known, too_large_error: ValueOverMaxSize, logger: Dalli.method(:logger))
    end

    # @yield what is called in it sends its commands without waiting, and returns nil; all have been
    #   carried out when it returns
    # @return [Object] what the block returns
    def quiet
      before = Thread.current[QUIET]
      Thread.current[QUIET] = true
      super
    ensure
      Thread.current[QUIET] = before
    end
    alias_method :multi, :quiet

    # Replies are never left unread.
    # @return [nil]
    def drain_deferred_responses = nil

    private

    # Without any, each call raises RingError, as Dalli's does.
    def addresses(servers) = Gyre::Memcached::Address.list(servers)
  end
end
