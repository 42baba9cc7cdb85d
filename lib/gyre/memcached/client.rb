# frozen_string_literal: true

# The memcached client: what a program calls. It makes keys and values, chooses the server of each
# key, and decides what is tried again; servers have the connections (memcached/server.rb). A call
# looks synchronous: with a scheduler it parks its fiber, and the commands of all fibers of a turn
# leave together; in a plain thread it blocks that thread only.

require "gyre/memcached/address"
require "gyre/memcached/errors"
require "gyre/memcached/options"
require "gyre/memcached/ring"
require "gyre/memcached/server"

module Gyre
  module Memcached
    # A client of one memcached or several. Any fibers and threads may share one.
    class Client
      # @param servers [String, Array<String>, nil] see {Address.list}
      # @param options see {Options}
      # @raise [ArgumentError] names what is wrong
      def initialize(servers = nil, **options)
        @options = Options.new(options)
        @keys = @options.keys
        @values = @options.values
        @expiry = @options.expiry
        @servers = Address.list(servers).map { |address| Server.new(address, @options) }
        @ring = Ring.new(@servers, failover: @options.failover?)
        @single = @servers.first if @servers.size == 1
        @servers.each { |server| server.prepare(@single ? @keys : nil, @keys.fixed_prefix, @values, @values.direct_bytes) }
      end

      # @param key [#to_s]
      # @return [Object, nil]
      def get(key)
        @single.get(key)
      rescue Server::Failed => error
        error.retry?(true) ? retry : raise(error.error)
      end

      # @param key [#to_s]
      # @param value [Object]
      # @param ttl [Integer, nil] seconds
      # @return [Integer, false]
      def set(key, value, ttl = nil)
        @single.set(key, value, @expiry.seconds(ttl))
      rescue Server::Failed => error
        error.retry?(true) ? retry : raise(error.error)
      end

      # @param key [#to_s]
      # @return [Boolean]
      def delete(key)
        @single.delete(key)
      rescue Server::Failed => error
        error.retry?(true) ? retry : raise(error.error)
      end

      # Closes all connections.
      # @return [nil]
      def close
        @servers.each(&:close)
        nil
      end
    end
  end
end
