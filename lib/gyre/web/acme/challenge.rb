# frozen_string_literal: true

# Makes the identity that answers an ACME authority's tls-alpn-01 (RFC 8737): a self-signed
# certificate with the digest of the key authorization. Stored by Store, shown by net/tls_context.c.

require "gyre/web/acme/key"

module Gyre
  module Web
    module ACME
      module Challenge
        OID = "1.3.6.1.5.5.7.1.31" # acmeIdentifier
        LIFETIME_S = 86_400

        module_function

        # Returns certificate and key. `proof`: the key authorization.
        def pem(name, proof)
          key = OpenSSL::PKey::EC.generate(Key::CURVE)
          certificate = OpenSSL::X509::Certificate.new
          certificate.version = 2
          certificate.serial = OpenSSL::BN.rand(127)
          certificate.subject = certificate.issuer = OpenSSL::X509::Name.new([["CN", "challenge"]])
          certificate.public_key = key
          certificate.not_before = Time.now - LIFETIME_S
          certificate.not_after = Time.now + LIFETIME_S
          certificate.add_extension(OpenSSL::X509::ExtensionFactory.new.create_extension("subjectAltName", "DNS:#{name}"))
          digest = OpenSSL::ASN1::OctetString.new(Digest::SHA256.digest(proof)).to_der
          certificate.add_extension(OpenSSL::X509::Extension.new(OID, digest, true))
          certificate.sign(key, OpenSSL::Digest.new("SHA256")).to_pem + key.to_pem
        end
      end
    end
  end
end
