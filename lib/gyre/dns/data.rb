# frozen_string_literal: true

# Converts records' data between bytes with uncompressed names (ext/gyre/dns/message_object.c) and
# classes of Ruby's resolv. Used by Record.
require "resolv"

module Gyre
  module DNS
    # resolv keeps each class that it makes for an unknown type, and clients choose the types.
    #
    # @return [Class] of Resolv::DNS::Resource; a new Generic one if resolv does not know the type
    # @api private
    def self.resource_class(type, klass)
      name, classes = "Type#{type}_Class#{klass}", Resolv::DNS::Resource::ClassHash
      known = if classes.is_a?(Hash) then classes[[type, klass]]
              elsif Resolv::DNS::Resource.const_defined?(name, false) then Resolv::DNS::Resource.const_get(name)
              end
      known || Class.new(Resolv::DNS::Resource::Generic) do
        const_set(:TypeValue, type)
        const_set(:ClassValue, klass)
      end
    end

    # @api private
    module Data
      # Writes names uncompressed, as the data may move to another message, and text as bytes.
      class Encoder < Resolv::DNS::Message::MessageEncoder
        def put_string(text)
          raise ArgumentError, "a text of more than 255 bytes" if text.bytesize > 255

          put_bytes([text.bytesize].pack("C") + text.b)
        end

        def put_bytes(bytes) = super(bytes.b)

        def put_labels(labels, **)
          labels.each { |label| put_label(label) }
          put_bytes("\0")
        end
      end
      private_constant :Encoder

      class << self
        # Raises ArgumentError.
        def encode(resource)
          case resource
          when Resolv::DNS::Resource::IN::A, Resolv::DNS::Resource::IN::AAAA then resource.address.address
          else Encoder.new { |encoder| resource.encode_rdata(encoder) }.to_s.b
          end
        rescue NoMethodError, TypeError, NotImplementedError => error
          raise ArgumentError, "#{resource.inspect} cannot be written: #{error.message}"
        end

        # Types unknown to resolv become Generic. Raises FormatError.
        def decode(type, klass, data)
          made = DNS.resource_class(type, klass)
          Resolv::DNS::Message::MessageDecoder.new(data) { |decoder| return made.decode_rdata(decoder) }
        rescue Resolv::DNS::DecodeError, ArgumentError, NoMethodError => error
          raise FormatError, "malformed data of #{DNS.type_name(type)}: #{error.message}"
        end
      end
    end
  end
end
