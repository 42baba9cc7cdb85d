# frozen_string_literal: true

# The certificate of the servers that bench/http measures over TLS: self-signed, with a key of
# P-256, in one file below tmp/bench.

$LOAD_PATH.unshift(File.expand_path("../../lib", __dir__)) unless $LOAD_PATH.include?(File.expand_path("../../lib", __dir__))
require "gyre/web/development_certificate"
require_relative "setup"

module Bench
  # Made with the first call.
  module Certificate
    # Returns a file with the certificate and its key.
    def self.path
      certificate = Gyre::Web::DevelopmentCertificate.new(folder: WORK)
      certificate.pem
      certificate.path
    end
  end
end
