# frozen_string_literal: true

# Converts keys like Dalli: checks, adds the namespace, shortens beyond memcached's limit by a
# digest. memcached_wire.c encodes spaces and non-ASCII bytes as base64.

require "digest/md5"

module Gyre
  module Memcached
    class Keys
      # On the wire.
      BYTES_LIMIT = 250

      # Keys with these or with non-ASCII bytes are sent as base64.
      ENCODED = /[\x00-\x20\x7F]/
      CONTROL = /[\x00-\x1F\x7F]/

      # Precedes any digest, as in Dalli.
      MARK = ":md5:"

      def initialize(namespace: nil, namespace_separator: ":", digest_class: Digest::MD5, control_characters: false)
        @digest_class = digest_class
        @separator = namespace_separator
        @namespace = namespace.is_a?(Proc) || !namespace ? namespace : namespace.to_s
        @prefix = "#{@namespace}#{@separator}".freeze if @namespace.is_a?(String)
        @refused = control_characters ? nil : CONTROL
      end

      # The prefix for the C extension's fast path; false if it may change.
      def fixed_prefix = @namespace.is_a?(Proc) ? false : @prefix

      # Raises ArgumentError for an empty key, control characters, or an encoding unlike the
      # namespace's.
      def full(key)
        key = key.to_s unless key.is_a?(String)
        raise ArgumentError, "key cannot be blank" if key.empty?

        key = "#{prefix}#{key}" if @namespace
        return checked(key) if key.bytesize > BYTES_LIMIT || !key.ascii_only? || ENCODED.match?(key)

        key
      rescue Encoding::CompatibilityError
        raise ArgumentError, "the key #{key.inspect[0, 80]} is in #{key.encoding}, in which nothing can stand beside it: encode it as UTF-8"
      end

      # Maps sent keys to callers' keys; repeated ones are sent once.
      def callers(keys) = keys.each_with_object({}) { |key, callers| callers[full(key)] ||= key.to_s }

      private

      def prefix = @prefix || "#{@namespace.call}#{@separator}"

      def checked(key)
        if @refused && (key.valid_encoding? && key.encoding.ascii_compatible? ? key : key.b).match?(@refused)
          raise ArgumentError, "the key #{key.inspect[0, 80]} contains control characters; memcached's keys must have none"
        end

        wire_bytes(key) > BYTES_LIMIT ? shortened(key) : key
      end

      # As in Dalli: 250 bytes with a namespace, else 249; fewer in base64.
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
