# frozen_string_literal: true

# The default serializer: writes nil, true, false, numbers, Strings, Symbols, Arrays and Hashes as
# JSON. Types that JSON lacks become JSON objects. Rejects other classes, and values that would
# change when they are loaded.

require "json"
require "gyre/memcached/errors"

module Gyre
  module Memcached
    # Never calls methods of the classes of stored objects.
    module Serializer
      DEPTH_LIMIT = 100
      # Each Hash takes three levels of JSON.
      FORM = { allow_nan: true, max_nesting: (3 * DEPTH_LIMIT) + 4 }.freeze
      SYMBOLS = [Encoding::UTF_8, Encoding::US_ASCII].freeze
      private_constant :FORM, :SYMBOLS

      class << self
        # Raises SerializationError for other classes, including subclasses.
        def dump(value) = JSON.generate([tree(value, 0)], FORM).b

        # Raises DeserializationError for bytes in another form, or with more than one value.
        def load(bytes)
          text = bytes.dup.force_encoding(Encoding::UTF_8)
          raise ArgumentError, "it is not UTF-8" unless text.valid_encoding?

          values = JSON.parse(text, FORM)
          values.is_a?(Array) && values.size == 1 ? restored(values.first) : raise(ArgumentError, "it has no single value")
        rescue JSON::JSONError, ArgumentError, EncodingError, NoMatchingPatternError => error
          hint = "; it looks like Marshal's, which a client with serializer: Marshal reads" if bytes.b.start_with?("\x04\x08".b)
          raise DeserializationError, "a stored value of #{bytes.bytesize} bytes is not in the default serializer's form: " \
                                      "#{error.message[0, 100]}#{hint}"
        end

        private

        def tree(value, depth)
          raise SerializationError, "Arrays and Hashes are nested more than #{DEPTH_LIMIT} deep, or contain themselves" if depth > DEPTH_LIMIT

          case value
          when nil, true, false, Integer, Float then value
          when Symbol then { symbol: name_of(value) }
          else compound(value, depth)
          end
        end

        def compound(value, depth)
          if value.instance_of?(String) then string(value)
          elsif value.instance_of?(Array) then value.map { |part| tree(part, depth + 1) }
          elsif value.instance_of?(Hash) && plain?(value) then { hash: [compound(value.keys, depth), compound(value.values, depth)] }
          else
            raise SerializationError, "#{value.class} is not among the classes that the default serializer stores (nil, true, false, Integer, " \
                                      "Float, String, Symbol, Array, Hash); convert it, or give the client serializer: Marshal"
          end
        end

        def plain?(hash) = hash.default.nil? && hash.default_proc.nil? && !hash.compare_by_identity?

        def string(value)
          return value if value.encoding == Encoding::UTF_8 && value.valid_encoding?

          { string: [[value].pack("m0"), value.encoding.name] }
        end

        def name_of(symbol)
          return symbol.name if SYMBOLS.include?(symbol.encoding)

          raise SerializationError, "the Symbol #{symbol.inspect} is in #{symbol.encoding}; only UTF-8 ones can be stored"
        end

        def restored(tree)
          case tree
          when Array then tree.map { |part| restored(part) }
          when Hash then named(*tree.first)
          else tree
          end
        end

        def named(kind, content)
          case [kind, content]
          in "hash", [Array => keys, Array => values] then restored(keys).zip(restored(values)).to_h
          in "symbol", String => name then name.to_sym
          in "string", [String => bytes, String => encoding] then bytes.unpack1("m0").force_encoding(encoding)
          end
        end
      end
    end
  end
end
