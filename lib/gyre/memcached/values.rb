# frozen_string_literal: true

# Converts objects to stored bytes and flags, and back: serializes, compresses, checks the size. The
# flags are Dalli's, so that Dalli and this client can share a cache.

require "timeout"
require "gyre/memcached/compressor"
require "gyre/memcached/serializer"

module Gyre
  module Memcached
    Values = Struct.new(:serializer, :compressor, :compress, :compression_min_size, :decompressed_max_bytes, :value_max_bytes, :raw,
      :string_fastpath, :too_large_error, keyword_init: true)

    class Values
      SERIALIZED, COMPRESSED, UTF8 = 1, 2, 4

      # Bytes that memcached 1.6 adds to key and value: header 48, CAS 8, flags 4, NUL, CRLF.
      ITEM_BYTES = 63

      # Errors from outside that may interrupt a serializer.
      OUTSIDE = [Timeout::Error, Gyre::TimeoutError].freeze

      # Maximum bytes of UTF-8 or binary Strings that the extension stores unchanged; -1 for none.
      def direct_bytes
        return -1 if raw || !string_fastpath

        [compress ? compression_min_size - 1 : value_max_bytes, value_max_bytes - ITEM_BYTES - Keys::BYTES_LIMIT].min
      end

      # Returns bytes and flags. Options that are nil default to the client's.
      def dump(key, value, raw: nil, compress: nil, string_fastpath: nil)
        bytes, flags = self.raw || raw ? [raw_bytes(key, value), 0] : encode(key, value, compress, string_fastpath)
        check_size(key, bytes)
        [bytes, flags]
      end

      # Returns the value, which may be `bytes` itself. Raises DeserializationError.
      def load(bytes, flags)
        return bytes if flags.zero? || raw

        bytes = decompress(bytes) if flags.anybits?(COMPRESSED)
        return deserialize(bytes) if flags.anybits?(SERIALIZED)

        flags.anybits?(UTF8) ? bytes.force_encoding(Encoding::UTF_8) : bytes
      end

      private

      def raw_bytes(key, value)
        value.is_a?(String) ? value : raise(SerializationError, "store #{key}: a raw value must be a String, got #{value.class}")
      end

      def encode(key, value, compress, fastpath)
        flags = unserialized_flags(value, fastpath)
        bytes = flags ? value : serialize(key, value)
        flags ||= SERIALIZED
        return [bytes, flags] if bytes.bytesize < compression_min_size || !(compress.nil? ? self.compress : compress)

        [compressor.compress(bytes), flags | COMPRESSED]
      end

      # Returns flags for a String that is stored unchanged; nil for other values and for
      # subclasses.
      def unserialized_flags(value, fastpath)
        return unless value.instance_of?(String) && (fastpath.nil? ? string_fastpath : fastpath)

        case value.encoding
        when Encoding::UTF_8 then UTF8
        when Encoding::BINARY then 0
        end
      end

      def serialize(key, value)
        serializer.dump(value)
      rescue *OUTSIDE, SerializationError
        raise
      rescue StandardError => error
        raise SerializationError, "store #{key}: #{serializer} cannot serialize an object of #{value.class}: #{error.message}", error.backtrace
      end

      def deserialize(bytes)
        serializer.load(bytes)
      rescue *OUTSIDE, DeserializationError
        raise
      rescue StandardError => error
        raise DeserializationError, "a stored value of #{bytes.bytesize} bytes is not in the form of #{serializer}: #{error.message}"
      end

      # Converts Zlib::Error, which other compressors may raise.
      def decompress(bytes)
        compressor.is_a?(Compressor) ? compressor.decompress(bytes, max_bytes: decompressed_max_bytes) : compressor.decompress(bytes)
      rescue Zlib::Error => error
        raise DeserializationError, "decompress a value of #{bytes.bytesize} bytes: #{error.message}"
      end

      def check_size(key, bytes)
        item_bytes = bytes.bytesize + key.bytesize + ITEM_BYTES
        return if item_bytes <= value_max_bytes

        raise too_large_error, "store #{key}: the item has #{item_bytes} bytes (value #{bytes.bytesize}, key #{key.bytesize}, " \
                                "memcached's own #{ITEM_BYTES}), value_max_bytes is #{value_max_bytes}; store less, or raise it and memcached's -I"
      end
    end
  end
end
