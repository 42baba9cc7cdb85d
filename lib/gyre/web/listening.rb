# frozen_string_literal: true

# Where a web server listens: its addresses, its sockets and the TLS contexts of those. Gyre::Web's
# server has one. It accepts nothing.

require "gyre/web/addresses"
require "gyre/web/settings"
require "gyre/web/tls_contexts"

module Gyre
  module Web
    # Sockets that it opens itself, or that were open before.
    class Listening
      attr_reader :listeners

      # `given` Listeners take the place of what `bind` names.
      def initialize(bind:, tls:, given:, log:)
        @tls = TLSContexts.new(tls && SETTINGS.check(:tls, tls), log: log)
        @given = given
        @log = log
        @listeners = []
        @contexts = {}
        @wanted = @tls.endpoints(given ? given.map(&:endpoint) : addresses(bind)).uniq
      end

      # Opens all or none.
      def open
        @contexts = @tls.contexts(@wanted)
        @tls.warn(@contexts.values)
        @given ? @listeners.concat(@given) : @wanted.each { |endpoint| @listeners.concat(endpoint.bind) }
      rescue SystemCallError, SocketError, StartError
        close
        raise
      end

      def open? = @listeners.any?

      # With the ports that the kernel chose.
      def endpoints = @tls.endpoints(@listeners.map(&:endpoint))

      # For HTTP::Server: TLS::Context by Listener.
      def contexts = by_listener { |endpoint| @contexts[endpoint.tls] }

      # For HTTP::Server: "v1", "v2" or "any" by Listener.
      def proxy_protocol = by_listener(&:proxy_protocol)

      def secure? = @contexts.any?

      # Reads certificates and the like again. If something is wrong, all of the old ones stay and
      # the log has the reason. Yields the new contexts.
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

      # When the first of the certificates in use ends; nil without TLS.
      def certificate_expires
        @contexts.each_value.flat_map { |context| [context, *context.names.values] }.map(&:not_after).min
      end

      # Before a close in which the kernel resets no connection that it has taken for this process.
      def refuse = @listeners.each(&:refuse)

      def close = @listeners.each(&:close)

      private

      def addresses(bind)
        raise ArgumentError, "bind: there is no address in the list" if bind == []

        (bind.is_a?(Array) ? bind : [bind]).map { |address| Addresses.endpoint(address) }
      end

      def by_listener
        @listeners.zip(endpoints).to_h { |listener, endpoint| [listener, yield(endpoint)] }.compact
      end
    end
  end
end
