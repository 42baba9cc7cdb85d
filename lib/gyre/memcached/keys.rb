# frozen_string_literal: true

# Converts keys like Dalli: checks them, adds the namespace, and shortens long keys by a digest.
# memcached_wire.c encodes keys with spaces or non-ASCII bytes as base64.

require "digest/md5"

module Gyre
  module Memcached
    class Keys
      # Maximum bytes of a key on the wire.
      BYTES_LIMIT = 250

      # Keys with these characters or non-ASCII bytes are sent as base64.
      ENCODED = /[\x00-\x20\x7F]/
      CONTROL = /[\x00-\x1F\x7F]/

      # Text before a digest, as in Dalli.
      MARK = ":md5:"

      def initialize(namespace: nil, namespace_separator: ":", digest_class: Digest::MD5, control_characters: false)
        @digest_class = digest_class
        @separator = namespace_separator
        @namespace = namespace.is_a?(Proc) || !namespace ? namespace : namespace.to_s
        @prefix = "#{@namespace}#{@separator}".freeze if @namespace.is_a?(String)
        @refused = control_characters ? nil : CONTROL
      end

      # The prefix of keys for the C extension's fast path; false if a Proc makes it.
      def fixed_prefix = @namespace.is_a?(Proc) ? false : @prefix

      # Returns the key for the wire. Raises ArgumentError if the key is empty, has control
      # characters, or its encoding is incompatible with the namespace's.
      def full(key)
        key = key.to_s unless key.is_a?(String)
        raise ArgumentError, "key cannot be blank" if key.empty?

        key = "#{prefix}#{key}" if @namespace
        return checked(key) if key.bytesize > BYTES_LIMIT || !key.ascii_only? || ENCODED.match?(key)

        key
      rescue Encoding::CompatibilityError
        raise ArgumentError, "the key #{key.inspect[0, 80]} is in #{key.encoding}, in which nothing can stand beside it: encode it as UTF-8"
      end

      # Maps each key for the wire to the caller's key. Repeated keys are sent once.
      def callers(keys) = keys.each_with_object({}) { |key, callers| callers[full(key)] ||= key.to_s }

      private

      def prefix = @prefix || "#{@namespace.call}#{@separator}"

      def checked(key)
        if @refused && (key.valid_encoding? && key.encoding.ascii_compatible? ? key : key.b).match?(@refused)
          raise ArgumentError, "the key #{key.inspect[0, 80]} contains control characters; memcached's keys must have none"
        end

        wire_bytes(key) > BYTES_LIMIT ? shortened(key) : key
      end

      # Shortens like Dalli: to 249 bytes, 250 with a namespace, or fewer if sent as base64.
      def shortened(key)
        digest = @digest_class.hexdigest(key)
        kept = [BYTES_LIMIT - (@namespace ? 0 : 1) - MARK.size - digest.size, 0].max
        kept.downto(0) do |size|
          short = "#{key[0, size]}#{MARK}#{digest}"
          return short if wire_bytes(short) <= BYTES_LIMIT
        end
        raise ArgumentError, "a digest of #{@digest_class} does not fit in a key of #{BYTES_LIMIT} bytes"
      end

      def wire_bytes(key) = key.ascii_only? && !ENCODED.match?(key) ? key.bytesize : (key.bytesize + 2) / 3 * 4
    end
  end
end
