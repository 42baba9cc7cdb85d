# frozen_string_literal: true

# The self-signed certificate of `gyre serve --tls` for this machine, kept in the user's cache so
# that a browser's exception stays valid. Used by Gyre::Web::TLSContexts.

require "digest/sha2"
require "fileutils"
require "openssl"
require "resolv"
require "socket"
require "gyre/errors"
require "gyre/whole_file"

module Gyre
  module Web
    # Makes a certificate and its key, or reads those made earlier.
    class DevelopmentCertificate
      LOCAL = %w[localhost 127.0.0.1 ::1].freeze
      DAY_S = 86_400
      LIFETIME_S = 365 * DAY_S
      # Minimum seconds of validity; a certificate with less is replaced.
      LEFT_S = 7 * DAY_S

      attr_reader :path

      # `hosts`: names besides localhost, 127.0.0.1 and ::1; "*" stands for this machine's name.
      def initialize(hosts: [], folder: DevelopmentCertificate.folder)
        @hosts = (LOCAL + hosts.map { |host| host == "*" ? Socket.gethostname : host }).map(&:downcase).uniq - ["0.0.0.0", "::"]
        @folder = folder
        others = (@hosts - LOCAL).sort
        @path = File.join(folder, "#{["localhost", *(Digest::SHA256.hexdigest(others.join(" "))[0, 12] if others.any?)].join("-")}.pem")
      end

      # Returns the folder in the user's cache (XDG Base Directory Specification).
      def self.folder
        cache = ENV["XDG_CACHE_HOME"].to_s
        cache = File.join(Dir.home, ".cache") unless cache.start_with?("/") # a relative one counts as none
        File.join(cache, "gyre", "tls")
      end

      # Returns certificate and key. Yields the certificate, which lacks its extensions.
      def self.self_signed(name, lifetime_s)
        key = OpenSSL::PKey::EC.generate("prime256v1")
        certificate = OpenSSL::X509::Certificate.new
        certificate.version = 2
        certificate.serial = OpenSSL::BN.rand(127)
        certificate.subject = certificate.issuer = OpenSSL::X509::Name.new([["CN", name[0, 64]]])
        certificate.public_key = key
        certificate.not_before = Time.now - DAY_S
        certificate.not_after = Time.now + lifetime_s
        yield certificate
        certificate.sign(key, OpenSSL::Digest.new("SHA256")).to_pem + key.to_pem
      end

      # Returns certificate and key. Raises StartError if they cannot be stored.
      def pem = kept || keep(make)

      # Returns a new certificate and key, and stores nothing.
      def make = DevelopmentCertificate.self_signed("Gyre development, #{Socket.gethostname}", LIFETIME_S) { |fresh| add_extensions(fresh) }

      private

      # Returns the stored text if only this user can read it and it stays valid for LEFT_S.
      def kept
        File.open(@path, File::RDONLY | File::NOFOLLOW) do |file|
          stat = file.stat
          return unless stat.file? && stat.owned? && (stat.mode & 0o077).zero?

          text = file.read
          certificate = OpenSSL::X509::Certificate.new(text)
          text if certificate.check_private_key(OpenSSL::PKey.read(text)) && certificate.not_after - Time.now > LEFT_S
        end
      rescue SystemCallError, OpenSSL::OpenSSLError
        nil
      end

      def keep(text)
        FileUtils.mkdir_p(@folder, mode: 0o700)
        WholeFile.replace(@path, text, perm: 0o600)
        text
      rescue SystemCallError => error
        raise StartError, "the certificate for development cannot be kept: #{error.message.sub(" @ rb_sysopen", "")}; " \
                          "XDG_CACHE_HOME names the folder above it"
      end

      def add_extensions(certificate)
        factory = OpenSSL::X509::ExtensionFactory.new(certificate, certificate)
        [["basicConstraints", "CA:FALSE", true], ["keyUsage", "digitalSignature", true], ["extendedKeyUsage", "serverAuth", false],
         ["subjectKeyIdentifier", "hash", false], ["subjectAltName", alternatives, false]].each do |name, value, critical|
          certificate.add_extension(factory.create_extension(name, value, critical))
        end
      end

      def alternatives = @hosts.map { |host| "#{host.match?(Resolv::AddressRegex) ? "IP" : "DNS"}:#{host}" }.join(",")
    end
  end
end
