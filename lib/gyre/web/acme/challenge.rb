# frozen_string_literal: true

# Makes the identity that answers an ACME authority's tls-alpn-01 (RFC 8737): a self-signed
# certificate with the digest of the key authorization. Stored by Store, shown by net/tls_context.c.

require "gyre/web/acme/key"
require "gyre/web/development_certificate"

module Gyre
  module Web
    module ACME
      module Challenge
        OID = "1.3.6.1.5.5.7.1.31" # acmeIdentifier

        module_function

        # Returns certificate and key. `proof`: the key authorization.
        def pem(name, proof)
          DevelopmentCertificate.self_signed("challenge", DevelopmentCertificate::DAY_S) do |certificate|
            certificate.add_extension(OpenSSL::X509::ExtensionFactory.new.create_extension("subjectAltName", "DNS:#{name}"))
            digest = OpenSSL::ASN1::OctetString.new(Digest::SHA256.digest(proof)).to_der
            certificate.add_extension(OpenSSL::X509::Extension.new(OID, digest, true))
          end
        end
      end
    end
  end
end
