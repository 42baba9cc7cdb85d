# frozen_string_literal: true

# Makes a TLS context with the settings of an OpenSSL::SSL::SSLContext, as Dalli takes one. Each
# setting is taken over or raises ArgumentError. Called by Gyre::Memcached::Options.

require "gyre/net/tls"
require "openssl"
require "socket"

module Gyre
  module Memcached
    module OpenSSLContext
      # Settings that a client of memcached may have, but that are not taken over.
      REFUSED = %i[verify_callback verify_depth client_cert_cb alpn_protocols tmp_dh_callback keylog_cb session_new_cb security_level ciphers].freeze
      SUPPORTED_VERSIONS = 43 # an extension's type: RFC 8446, section 4.2.1

      module_function

      # Permits only the system's certificate store, because another one cannot be read.
      def convert(context)
        check(context)
        verify = context.verify_mode.to_i.anybits?(OpenSSL::SSL::VERIFY_PEER)
        verify = :optional if verify && context.verify_hostname == false # any name
        oldest, newest = offered_versions(context).minmax
        chain = [context.cert, *context.extra_chain_cert].compact.map(&:to_pem).join
        particulars = { oldest: [oldest, OpenSSL::SSL::TLS1_2_VERSION].max, newest: newest }
        particulars[:ca_folder] = context.ca_path if context.ca_path
        TLS::Context.new(server: false, ca: context.ca_file || context.ca_path, cert: (chain unless chain.empty?), key: context.key&.to_pem,
                         verify: verify, particulars: particulars)
      end

      def check(context)
        if context.cert_store && !context.cert_store.equal?(OpenSSL::SSL::SSLContext::DEFAULT_CERT_STORE)
          raise ArgumentError, "ssl_context: the certificates of a cert_store cannot be read from it: write the authorities to a PEM file, and " \
                               "name it by the context's ca_file instead, or use tls: Gyre::TLS.client(ca: path) instead of ssl_context"
        end

        usual = OpenSSL::SSL::SSLContext.new
        usual_with_params = OpenSSL::SSL::SSLContext.new.tap(&:set_params)
        REFUSED.each do |name|
          next unless context.respond_to?(name)

          next if [usual, usual_with_params].any? { |each| each.public_send(name) == context.public_send(name) }

          raise ArgumentError, "ssl_context: #{name}: it cannot be taken over: leave it out, or use tls: Gyre::TLS.client(…) instead of ssl_context"
        end
      end

      # Returns the versions that the context would offer to a server: they can be set, but not
      # read.
      def offered_versions(context)
        ours, theirs = UNIXSocket.pair
        OpenSSL::SSL::SSLSocket.new(ours, context).connect_nonblock(exception: false)
        versions(theirs.recv_nonblock(65_536)) || [OpenSSL::SSL::TLS1_2_VERSION]
      rescue OpenSSL::SSL::SSLError => error
        raise ArgumentError, "ssl_context: #{error.message}"
      ensure
        [ours, theirs].compact.each(&:close)
      end

      # Reads a ClientHello (RFC 8446, section 4.1.2), with the head of its record. Returns nil
      # without the extension, which a client of TLS 1.2 lacks.
      def versions(hello)
        at = 43
        at += 1 + hello.getbyte(at)
        at += 2 + hello.unpack1("n", offset: at)
        at += 3 + hello.getbyte(at)
        while at < hello.bytesize
          type, length = hello.unpack("n2", offset: at)
          return hello.byteslice(at + 5, length - 1).unpack("n*") if type == SUPPORTED_VERSIONS

          at += 4 + length
        end
      end
    end
  end
end
