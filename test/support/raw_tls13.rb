# frozen_string_literal: true

# A client of TLS 1.3 for tests: Ruby's openssl makes the handshake, and from then on the records
# are made here (RFC 8446, section 5), so that messages can be sent that no library would send. The
# server has to agree on TLS_AES_128_GCM_SHA256.
require "openssl"

module GyreTest
  class RawTLS13
    CIPHER = "TLS_AES_128_GCM_SHA256"
    HANDSHAKE = 22
    DATA = 23
    private_constant :HANDSHAKE, :DATA

    attr_reader :ssl

    def initialize(socket)
      context = OpenSSL::SSL::SSLContext.new
      context.min_version = OpenSSL::SSL::TLS1_3_VERSION
      context.verify_mode = OpenSSL::SSL::VERIFY_NONE
      context.keylog_cb = lambda do |_, line|
        label, _, secret = line.split
        @secret = [secret].pack("H*") if label == "CLIENT_TRAFFIC_SECRET_0"
      end
      @ssl = OpenSSL::SSL::SSLSocket.new(socket, context)
      @ssl.hostname = "localhost"
    end

    # Returns whether the handshake is over.
    def connect
      return false unless @ssl.connect_nonblock(exception: false) == @ssl

      derive
      true
    end

    # Returns a record with these bytes of the application.
    def data(bytes) = seal(DATA, bytes)

    def key_update(requested: false) = key_update_in_parts(5, requested: requested).first

    def key_update_in_parts(length, requested: false)
      message = "\x18\0\0\x01".b << (requested ? 1 : 0)
      records = message.scan(/.{1,#{length}}/mn).map { |part| seal(HANDSHAKE, part) }
      @secret = expand(@secret, "traffic upd", 32)
      derive
      records
    end

    private

    def seal(type, bytes)
      inner = bytes.b << type
      header = [23, 3, 3, inner.bytesize + 16].pack("CCCn")
      cipher = OpenSSL::Cipher.new("aes-128-gcm").encrypt
      cipher.key = @key
      cipher.iv = nonce
      cipher.auth_data = header
      @sequence += 1
      header + cipher.update(inner) + cipher.final + cipher.auth_tag
    end

    def nonce
      tail = @iv[4..].unpack1("Q>") ^ @sequence
      @iv[0, 4] + [tail].pack("Q>")
    end

    # HKDF-Expand-Label (section 7.1), for one block.
    def expand(secret, label, length)
      label = "tls13 #{label}"
      info = [length, label.bytesize].pack("nC") + label + "\0"
      OpenSSL::HMAC.digest("SHA256", secret, "#{info}\x01")[0, length]
    end

    def derive
      @key = expand(@secret, "key", 16)
      @iv = expand(@secret, "iv", 12)
      @sequence = 0
    end
  end
end
