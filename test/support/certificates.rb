# frozen_string_literal: true

# Certificates for a test, made in a folder by Ruby's openssl: an authority, what it signed, and a
# stranger's.
require "openssl"

module GyreTest
  # Paths of PEM files. Made once for a folder; the keys are elliptic, for they are made at once.
  class Certificates
    def initialize(folder)
      @folder = folder
      @serial = 0
      @authorities = {}
    end

    def authority(name = "authority")
      @authorities[name] ||= begin
        key = OpenSSL::PKey::EC.generate("prime256v1")
        certificate = certificate(name, key, name, key,
                                  { "basicConstraints" => "critical,CA:TRUE", "keyUsage" => "critical,keyCertSign,cRLSign" })
        [certificate, key].tap { write("#{name}.pem", certificate.to_pem) }
      end
      path("#{name}.pem")
    end

    def issue(name, by: "authority", alt: "DNS:localhost,IP:127.0.0.1", to: Time.now + 86_400, key: nil)
      authority(by)
      issuer, issuer_key = @authorities.fetch(by)
      key ||= OpenSSL::PKey::EC.generate("prime256v1")
      certificate = certificate(name, key, issuer.subject.to_a[0][1], issuer_key, { "subjectAltName" => alt }, to)
      [write("#{name}.pem", certificate.to_pem), write("#{name}.key", key.to_pem)]
    end

    def revocations(certificate)
      list = OpenSSL::X509::CRL.new
      list.issuer = OpenSSL::X509::Certificate.new(File.read(authority)).subject
      list.version = 1
      list.last_update = Time.now - 3600
      list.next_update = Time.now + 3600
      revoked = OpenSSL::X509::Revoked.new
      revoked.serial = OpenSSL::X509::Certificate.new(File.read(certificate)).serial
      revoked.time = Time.now - 60
      list.add_revoked(revoked)
      list.sign(OpenSSL::PKey.read(File.read(key("authority"))), OpenSSL::Digest.new("SHA256")).to_pem
    end

    def key(name)
      authority(name)
      write("#{name}.key", @authorities.fetch(name)[1].to_pem)
    end

    # Returns a path in the folder.
    def path(name)
      File.join(@folder, name)
    end

    def write(name, text)
      File.write(path(name), text)
      path(name)
    end

    private

    def certificate(name, key, issuer, issuer_key, extensions, to = Time.now + 86_400)
      certificate = OpenSSL::X509::Certificate.new
      certificate.version = 2
      certificate.serial = (@serial += 1)
      certificate.subject = OpenSSL::X509::Name.new([["CN", name]])
      certificate.issuer = OpenSSL::X509::Name.new([["CN", issuer]])
      certificate.public_key = key
      certificate.not_before = Time.now - 7200
      certificate.not_after = to
      factory = OpenSSL::X509::ExtensionFactory.new
      extensions.each do |id, value|
        extension = factory.create_extension(id, value.delete_prefix("critical,"), value.start_with?("critical,"))
        certificate.add_extension(extension)
      end
      certificate.sign(issuer_key, OpenSSL::Digest.new("SHA256"))
    end
  end
end
