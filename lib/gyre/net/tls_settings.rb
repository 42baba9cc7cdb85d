# frozen_string_literal: true

# TLS settings of gyre serve and gyre log. Each row is a keyword of TLS.server. Opens no file.

require "gyre/settings"

module Gyre
  module TLS
    VERIFICATION = { "true" => true, "false" => false, "optional" => :optional }.freeze
    OLD_VERSIONS = "leave it out: versions before TLS 1.2 are not supported"

    row = Settings.method(:row)
    ROWS = [
      row[:cert, :text, "the certificate, followed by its intermediates: a file, or the text itself (PEM)"],
      row[:key, :text, "its private key: a file, or the text itself (PEM)", secret: true],
      row[:ca, :text, "a file or folder with the authorities of clients' certificates (PEM)"],
      row[:crl, :text, "a file with a revocation list of each of these authorities (PEM)"],
      row[:verify, Settings::Type.new("WHEN", "true, false or optional") { |value| VERIFICATION[value.to_s] },
          "clients' certificates: true: required; optional: verified if shown", usual: "true with ca"],
      row[:ciphers, :text, "ciphers of TLS 1.2, as in openssl-ciphers(1)"],
      row[:ciphersuites, :text, "ciphers of TLS 1.3"],
      row[:min_version, %w[1.2 1.3], "lowest version", default: "1.2"]
    ].freeze

    # Advice for obsolete settings and for other programs' settings.
    FOREIGN_WORDS = {
      certificate: "write cert", certificate_file: "write cert", ssl_certificate: "write cert", cert_path: "write cert",
      cert_pem: "write cert, which takes PEM, too", key_pem: "write key, which takes PEM, too", private_key: "write key", key_path: "write key",
      ssl_certificate_key: "write key", ca_file: "write ca", verify_mode: "write verify: true (force_peer) or optional (peer); leave it out (none)",
      verification_flags: "write crl for revoked certificates", ssl_cipher_filter: "write ciphers", ssl_ciphersuites: "write ciphersuites",
      no_tlsv1: OLD_VERSIONS, no_tlsv1_1: OLD_VERSIONS, reuse: "leave it out: sessions are resumed by tickets",
      key_password_command: "store the key without a passphrase (openssl pkey -in KEY -out NEW)",
      ocsp: "leave it out: OCSP has ended", ssl_stapling_file: "leave it out: OCSP has ended"
    }.freeze
  end
end
