# frozen_string_literal: true

# A web server's addresses, sockets and TLS contexts. Made by Gyre::Web::Server. Accepts nothing.

require "gyre/web/settings"
require "gyre/web/tls_contexts"

module Gyre
  module Web
    # Opens its sockets, or uses given ones.
    class Listening
      attr_reader :listeners

      # `given`: Listeners to use instead of `bind`, or nil. `challenges`: see TLS.server.
      def initialize(bind:, tls:, given:, log:, challenges: nil)
        @tls = TLSContexts.new(tls && SETTINGS.check(:tls, tls), log: log, challenges: challenges)
        @given = given
        @log = log
        @listeners = []
        @contexts = {}
        @wanted = @tls.endpoints(given ? given.map(&:endpoint) : addresses(bind)).uniq
      end

      # Opens all sockets or none.
      def open
        @contexts = @tls.contexts(@wanted)
        @tls.warn(@contexts.values)
        @given ? @listeners.concat(@given) : @wanted.each { |endpoint| @listeners.concat(endpoint.bind) }
      rescue SystemCallError, SocketError, StartError
        close
        raise
      end

      def open? = @listeners.any?

      # Returns the endpoints with their actual ports.
      def endpoints = @tls.endpoints(@listeners.map(&:endpoint))

      # Returns the TLS::Context by Listener, for those that have one.
      def contexts = by_listener { |endpoint| @contexts[endpoint.tls] }

      # Returns "v1", "v2" or "any" by Listener, for those that expect a PROXY header.
      def proxy_protocol = by_listener(&:proxy_protocol)

      def secure? = @contexts.any?

      # Reads certificates and related files again, and yields the new contexts. On an error, keeps
      # the old contexts and logs the reason.
      def reload
        contexts = @tls.contexts(@wanted)
        @contexts = contexts
        yield self.contexts
        @log.info("Certificates were read again")
        @tls.warn(contexts.values)
        true
      rescue StartError => error
        @log.error("#{error.message}. The certificates in use stay")
        false
      end

      # Returns the first expiry of the certificates in use; nil if there are none.
      def certificate_expires = @contexts.each_value.flat_map { |context| [context, *context.names.values] }.map(&:not_after).min

      # Refuses new connections. Those that wait are then accepted, so that {#close} resets none.
      def refuse = @listeners.each(&:refuse)

      def close = @listeners.each(&:close)

      private

      def addresses(bind)
        raise ArgumentError, "bind: the list is empty" if bind == []

        (bind.is_a?(Array) ? bind : [bind]).map { |address| Addresses.endpoint(address) }
      end

      def by_listener = @listeners.zip(endpoints).to_h { |listener, endpoint| [listener, yield(endpoint)] }.compact
    end
  end
end
