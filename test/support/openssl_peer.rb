# frozen_string_literal: true

# Contexts of Ruby's openssl, for tests in which the peer has another implementation of TLS than
# ours.
require "openssl"

module GyreTest
  # Frozen OpenSSL::SSL::SSLContexts.
  module OpenSSLPeer
    class << self
      def client(ca: nil, cert: nil, key: nil, verify: !ca.nil?)
        context(cert, key) do |context|
          context.ca_file = ca if ca
          context.verify_mode = verify ? OpenSSL::SSL::VERIFY_PEER : OpenSSL::SSL::VERIFY_NONE
          yield context if block_given?
        end
      end

      def server(cert:, key:, &block)
        context(cert, key, &block)
      end

      private

      def context(certificate, key)
        context = OpenSSL::SSL::SSLContext.new
        if certificate
          context.add_certificate(OpenSSL::X509::Certificate.new(File.read(certificate)), OpenSSL::PKey.read(File.read(key)))
        end
        yield context if block_given?
        context.tap(&:freeze) # which is setup, and returns true
      end
    end
  end
end
