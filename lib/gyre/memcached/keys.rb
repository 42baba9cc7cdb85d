# frozen_string_literal: true

# Converts a caller's key to the key that is sent, like Dalli: checks it, adds the namespace, and
# shortens it by a digest beyond memcached's limit. Called by the client before anything is sent.
# memcached_wire.c encodes spaces and non-ASCII bytes as base64.

require "digest/md5"

module Gyre
  module Memcached
    class Keys
      # memcached's limit for the key on the wire.
      BYTES_LIMIT = 250

      # Keys with these or with non-ASCII bytes are sent as base64.
      ENCODED = /[\x00-\x20\x7F]/
      CONTROL = /[\x00-\x1F\x7F]/
      private_constant :ENCODED, :CONTROL

      # Precedes the digest; Dalli writes "md5" for any digest.
      MARK = ":md5:"
      private_constant :MARK

      def initialize(namespace: nil, namespace_separator: ":", digest_class: Digest::MD5, control_characters: false)
        @digest_class = digest_class
        @separator = namespace_separator
        @namespace = namespace.is_a?(Proc) || !namespace ? namespace : namespace.to_s
        @prefix = "#{@namespace}#{@separator}".freeze if @namespace.is_a?(String)
        @refused = control_characters ? nil : CONTROL
      end

      # The prefix for the C extension, which makes usual keys by itself. False if the prefix may
      # change with each call.
      def fixed_prefix = @namespace.is_a?(Proc) ? false : @prefix

      # Raises ArgumentError if the key is empty, has control characters, or its encoding does not
      # match the namespace.
      def full(key)
        key = key.to_s unless key.is_a?(String)
        raise ArgumentError, "key cannot be blank" if key.empty?

        key = "#{prefix}#{key}" if @namespace
        return checked(key) if key.bytesize > BYTES_LIMIT || !key.ascii_only? || ENCODED.match?(key)

        key
      rescue Encoding::CompatibilityError
        raise ArgumentError, "the key #{key.inspect[0, 80]} is in #{key.encoding}, in which nothing can stand beside it: encode it as UTF-8"
      end

      # Maps the keys to send to the caller's keys, for commands with many keys. Sends a repeated
      # key once.
      def callers(keys)
        keys.each_with_object({}) { |key, callers| callers[full(key)] ||= key.to_s }
      end

      private

      def prefix = @prefix || "#{@namespace.call}#{@separator}"

      def checked(key)
        if @refused && (key.valid_encoding? && key.encoding.ascii_compatible? ? key : key.b).match?(@refused)
          raise ArgumentError, "the key #{key.inspect[0, 80]} contains control characters; memcached's keys must have none"
        end

        wire_bytes(key) > BYTES_LIMIT ? shortened(key) : key
      end

      # Dalli allows 250 bytes with a namespace and 249 without one. A key in base64 gets a shorter
      # beginning.
      def shortened(key)
        digest = @digest_class.hexdigest(key)
        kept = [BYTES_LIMIT - (@namespace ? 0 : 1) - MARK.size - digest.size, 0].max
        kept.downto(0) do |size|
          short = "#{key[0, size]}#{MARK}#{digest}"
          return short if wire_bytes(short) <= BYTES_LIMIT
        end
        raise ArgumentError, "a digest of #{@digest_class} does not fit in a key of #{BYTES_LIMIT} bytes"
      end

      def wire_bytes(key)
        key.ascii_only? && !ENCODED.match?(key) ? key.bytesize : (key.bytesize + 2) / 3 * 4
      end
    end
  end
end
